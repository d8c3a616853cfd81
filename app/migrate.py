"""`python -m app.migrate`: migrate the database to the present schema, and exit.

Exits with 1, and changes nothing, where a migration is missing while processes of the installation
run: they know the schema as it is.
"""

import sys

from app import logs
from app.services.presence import RunningError
from app.services.upkeep import migrate, room_to_start
from app.settings import settings


def main() -> None:
    """Migrate, waiting for a concurrent migration."""
    using = settings()
    logs.configure(using.log_format, using.log_level)
    logs.silence_warnings()
    try:
        with room_to_start("the migration", using.data_dir):
            migrate(using, stopped=True)
    except RunningError as error:
        sys.exit(f"the database is not migrated: {error}")


if __name__ == "__main__":
    main()
