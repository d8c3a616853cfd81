"""./dev planted [NAME ...] [--list] [--part K/N]: whether bugs are caught by their named tests."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.parts import part_of
from tests.planted.bugs import BUGS
from tests.planted.runner import Bug, PlantError, Verdict, run_all


def say(line: str) -> None:
    """Say it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def arguments() -> argparse.Namespace:
    """What the caller asks for."""
    parser = argparse.ArgumentParser(prog="./dev planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a bug; all of them if none")
    parser.add_argument("--list", action="store_true", help="name the bugs, and run nothing")
    parser.add_argument("--part", default="0/1", metavar="K/N", help="every N-th bug from K on")
    return parser.parse_args()


def chosen(names: list[str]) -> list[Bug]:
    """The bugs of these names, or all. Ends the program on a name that there is not."""
    known = {bug.name: bug for bug in BUGS}
    if missing := [name for name in names if name not in known]:
        sys.exit(f"no bug is named {', '.join(missing)}: see ./dev planted --list")
    return [known[name] for name in names] or list(BUGS)


def tell(verdict: Verdict) -> None:
    """Print a row of the table."""
    seen = f"SURVIVED: {verdict.survived}" if verdict.survived else verdict.bug.caught_by
    how = " compiled" if verdict.bug.compiled else ""
    say(f"{verdict.bug.name:<48} {verdict.seconds:6.1f} s  {seen}{how}")


def main() -> int:
    """Return 0 where every bug was caught."""
    options, began = arguments(), time.monotonic()
    bugs = part_of(chosen(options.names), options.part)
    if options.list:
        for bug in bugs:
            say(f"{bug.name:<48} {bug.file:<40} {bug.caught_by}")
        return 0
    with tempfile.TemporaryDirectory(prefix="dpmcmc-planted-") as folder:
        try:
            verdicts = run_all(bugs, Path(folder), tell)
        except PlantError as error:
            sys.exit(f"planted: {error}")
    survivors = [verdict.bug.name for verdict in verdicts if verdict.survived]
    caught = len(verdicts) - len(survivors)
    say(f"planted: {caught} of {len(verdicts)} caught in {time.monotonic() - began:.0f} s")
    if survivors:
        say(f"planted: survived: {', '.join(survivors)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
