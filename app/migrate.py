"""`python -m app.migrate`: bring the database to the present schema, and end."""

from app import logs
from app.services.upkeep import migrate, room_to_start
from app.settings import settings


def main() -> None:
    """Once the lock of another process that migrates is given back there is nothing left to do."""
    using = settings()
    logs.configure(using.log_format, using.log_level)
    logs.silence_warnings()
    with room_to_start("the migration", using.data_dir):
        migrate(using)


if __name__ == "__main__":
    main()
