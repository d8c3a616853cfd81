"""`./dev load [--seconds 60] [--stack embedded|servers] [--rest]`: a crowd, or one."""

import argparse
import os
import subprocess
import sys

from tests.chaos.stacks import AbsentError
from tests.load.crowded import under_load
from tests.load.report import Line, say
from tests.load.rest import at_rest
from tests.load.stacks import STACKS, started
from worker.warmup import compiled


def compile_kernels() -> None:
    """Compile what is not compiled yet: an installation does so once, in its first minutes."""
    if not compiled().exists():
        say("compiling kernels, once ...")
        subprocess.run([sys.executable, "-m", "worker.warmup"], check=True)


def measured(name: str, seconds: float, rest: bool) -> list[Line]:
    """One stack's lines."""
    with started(name, hanging=not rest) as on:
        return at_rest(on) if rest else under_load(on, seconds)


def main() -> int:
    """The command line. Returns 0 where every line is kept."""
    parser = argparse.ArgumentParser(prog="./dev load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load, on each stack")
    parser.add_argument("--stack", choices=STACKS, action="append", help="one of the two only")
    parser.add_argument("--rest", action="store_true", help="one caller, and an idle service")
    options = parser.parse_args()
    compile_kernels()
    missed = False
    for name in options.stack or STACKS:
        say(f"{name}:")
        try:
            lines = measured(name, options.seconds, options.rest)
        except AbsentError as absent:
            say(f"  skipped, {absent} is not installed")
            missed |= os.environ.get("CI") == "true"
            continue
        for line in lines:
            say(line)
            missed |= not line.passed
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
