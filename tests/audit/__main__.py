"""`./dev audit [--quick] [--replay]`: attack every sampler and release, search for noise that is
too small, and replay transcripts on neighbours. Exit code 1 where anything is less private than
claimed."""

import argparse
import os
import sys
import time
from pathlib import Path

from dpmcmc.algorithms import ALGORITHMS
from tests.audit.report import alpha_of, others_of, too_sure, write, write_part
from tests.audit.work import FULL, OTHERS, QUICK, attacked_others, audited, replays, say


def main() -> int:
    """The command line. Returns 0 where nothing is less private than claimed."""
    parser = argparse.ArgumentParser(prog="./dev audit", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under five minutes")
    parser.add_argument("--replay", action="store_true", help="forced transcripts alone")
    parser.add_argument("--others", action="store_true", help="attacks on what is no chain alone")
    parser.add_argument("--out", type=Path, default=Path("var/audit"), help="of the report")
    parser.add_argument("--algorithm", action="append", default=[], choices=list(ALGORITHMS))
    options = parser.parse_args()
    began, workers = time.monotonic(), len(os.sched_getaffinity(0))
    if options.replay:
        made = replays(quick=options.quick, only=options.algorithm, workers=workers)
        write_part({"replay": made}, options.out)
        return ended(made["wrong"], began, options.out)
    size = QUICK if options.quick else FULL
    if options.others:
        cells = attacked_others(size, workers)
        alpha = alpha_of(cells)
        write_part(
            others_of(cells, alpha, workers=workers, trials=OTHERS * size.releases), options.out
        )
        return ended(too_sure(cells, alpha), began, options.out)
    audit = audited(size, options.algorithm, workers)
    write(audit, options.out)
    seen = audit.search
    say(
        f"{seen['tried']} requests: {seen['refused']} refused, {seen['planned']} planned,"
        f" {seen['ran']} run, {seen['seconds']:.0f} s"
    )
    return ended(audit.wrong(), began, options.out)


def ended(wrong: list[str], began: float, folder: Path) -> int:
    """Say what was found. Returns the exit code."""
    said = ["audit: WRONG", *wrong] if wrong else ["audit: nothing less private than claimed"]
    say("\n".join(said))
    say(f"{time.monotonic() - began:.0f} s; the report is in {folder}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
