"""`dpmcmc`, the command line client of a service."""

import sys

from dpmcmc.base.version import __version__


def main() -> None:
    """Run the command, or say what to install: the library alone lacks its packages."""
    try:
        from dpmcmc.client.cli import app
    except ModuleNotFoundError as error:
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"dpmcmc {__version__}\n")
            return
        sys.exit(f"dpmcmc: {error.name} is missing. Run: pip install 'dpmcmc[client]'")
    app(prog_name="dpmcmc")


if __name__ == "__main__":
    main()
