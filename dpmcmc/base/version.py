"""The version of dpmcmc: of the library, the service and their files."""

__version__ = "0.1.0"
