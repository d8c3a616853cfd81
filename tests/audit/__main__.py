"""`./dev audit [--quick]`: attack every sampler and release, and search for noise that is too
small. Exit code 1 where anything is less private than claimed."""

import argparse
import os
import sys
import time
from pathlib import Path

from dpmcmc.algorithms import ALGORITHMS
from tests.audit.report import write
from tests.audit.work import FULL, QUICK, audited, say


def main() -> int:
    """The command line. Returns 0 where nothing is less private than claimed."""
    parser = argparse.ArgumentParser(prog="./dev audit", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under five minutes")
    parser.add_argument("--out", type=Path, default=Path("var/audit"), help="of the report")
    parser.add_argument("--algorithm", action="append", default=[], choices=list(ALGORITHMS))
    options = parser.parse_args()
    began = time.monotonic()
    size = QUICK if options.quick else FULL
    audit = audited(size, options.algorithm, len(os.sched_getaffinity(0)))
    write(audit, options.out)
    wrong = audit.wrong()
    seen = audit.search
    say(
        f"{seen['tried']} requests: {seen['refused']} refused, {seen['planned']} planned,"
        f" {seen['ran']} run, {seen['seconds']:.0f} s"
    )
    say(
        "\n".join(["audit: WRONG", *wrong]) if wrong else "audit: nothing less private than claimed"
    )
    say(f"{time.monotonic() - began:.0f} s; the report is in {options.out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
