"""`dpmcmc`: the command line client, and `dpmcmc serve`, which runs the service."""

import sys

from dpmcmc.version import __version__


def main() -> None:
    """Run what is asked for, or say what to install: the core alone lacks its packages."""
    try:
        if sys.argv[1:2] == ["serve"]:
            from app.serve import main as serve

            return serve(sys.argv[2:])
        from dpmcmc.client.cli import app
    except ModuleNotFoundError as error:
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"dpmcmc {__version__}\n")
            return
        sys.exit(f"dpmcmc: {error.name} is missing. Run: pip install 'dpmcmc[service]'")
    app(prog_name="dpmcmc")


if __name__ == "__main__":
    main()
