"""The version of dpmcmc: of the library, the service and their files."""

__version__ = "0.2.0"
