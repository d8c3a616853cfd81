"""`python -m dpmcmc_service.migrate`: bring the database to the present schema, and end."""

from dpmcmc_service import logs
from dpmcmc_service.jobs.upkeep import migrate
from dpmcmc_service.settings import settings


def main() -> None:
    """Once the lock of another process that migrates is given back there is nothing left to do."""
    using = settings()
    logs.configure(using.log_format, using.log_level)
    logs.silence_warnings()
    migrate(using)


if __name__ == "__main__":
    main()
