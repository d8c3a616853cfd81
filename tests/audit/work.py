"""What an audit consists of: a cell for every registered algorithm, and one search of requests."""

import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

from dpmcmc.releases import RELEASES
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.algorithms import ALGORITHMS
from tests.audit import others, replay, replay_cases, search
from tests.audit.cells import (
    CHAINS,
    Candidate,
    Cell,
    attacked,
    candidates,
    chosen,
    families_of,
    planned,
    trials,
)
from tests.audit.report import Audit, replay_of, settings_of

MULTIPLIER = 1.0  # noise of all steps of a trial together: mu is about 1
DELTAS = {True: 1e-5, False: 1e-3}  # true: of Gaussian DP
SLOWER = 6  # times, that a run of one release takes as long as one chain among others
USUAL_SECONDS = 0.01  # of a run of a release: of slower ones fewer are made
LEAST_PILOT, LEAST_TRIALS = 20, 400
OTHERS = 4  # times as many releases of what is quick
FAVOURITES = ("gaussian_mean", "logistic", "linear", "poisson", "multinomial", "banana")


@dataclass(frozen=True)
class Size:
    """How much work. trials: of each dataset, by one chain; releases: the same by one release.

    pilot: trials of a candidate at first. most: candidates. families, steps: of an algorithm.
    """

    trials: int
    releases: int
    pilot: int
    most: int
    families: int
    steps: tuple[int, ...]
    requests: int
    seconds: float


QUICK = Size(30_000, 3_000, 480, 16, 1, (1,), 1_000, 40.0)
FULL = Size(120_000, 5_000, 480, 30, 1, (1,), 10_000, 600.0)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def attack(algorithm: str, family: str, steps: int, size: Size) -> Cell | None:
    """Attack one algorithm on one family. None where it cannot be asked for that."""
    z = MULTIPLIER * steps**0.5
    release = algorithm in RELEASES
    some = candidates(algorithm, family, z, DELTAS[True], steps)
    if not some:
        return None
    if some[0].request.plan().cost.mu is None:
        some = candidates(algorithm, family, z, DELTAS[False], steps)
    chains = 1 if release else CHAINS
    slower, slowness = (SLOWER, slowness_of(some[0])) if release else (1, 1.0)
    pilot = max(int(size.pilot / slower / slowness), LEAST_PILOT)
    best = chosen(some, pilot, -(-2 * size.most // slower), chains)
    few = max(int(size.releases / slowness), LEAST_TRIALS)
    return attacked(best, few if release else size.trials, chains)


def slowness_of(candidate: Candidate) -> float:
    """Return how many times as long as usual a run of a release takes, at least 1."""
    plan, table = planned(candidate.request, 1), candidate.tables()[0]
    trials(plan, table, 1)  # what is loaded once
    began = time.process_time()
    trials(plan, table, 5)
    return max((time.process_time() - began) / 5 / USUAL_SECONDS, 1.0)


def wanted(size: Size, only: list[str]) -> Iterator[tuple[str, str, int]]:
    """Return (algorithm, family, steps) of every cell, from the registry."""
    for algorithm in only or ALGORITHMS:
        families = sorted(families_of(algorithm), key=_rank)
        every = bool(only) and algorithm in RELEASES  # each family is another sum over rows
        for family in families if every else families[: size.families]:
            several = algorithm in SAMPLERS and family == families[0]
            for steps in size.steps if several else (1,):
                yield algorithm, family, steps


def _rank(family: str) -> int:
    return FAVOURITES.index(family) if family in FAVOURITES else -1


def looked_for(size: Size) -> tuple[search.Outcome, dict[str, list[float] | None]]:
    """Search, and say the ends of all numbers."""
    known = search.explored()
    outcome = search.search(known, size.requests, size.seconds)
    ends = {
        f"{part}/{'/'.join(path)}": None if found is None else [found.low, found.high]
        for (part, path), found in known.ends.items()
    }
    return outcome, ends


def quiet() -> None:
    """What far out numbers overflow is no concern of an audit."""
    warnings.simplefilter("ignore")


@contextmanager
def interpreters(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that run kernels as plain Python, where answers can be forced."""
    before = os.environ.get("NUMBA_DISABLE_JIT")
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    try:
        with ProcessPoolExecutor(workers, get_context("spawn"), quiet) as pool:
            yield pool
    finally:
        os.environ.pop("NUMBA_DISABLE_JIT")
        if before is not None:
            os.environ["NUMBA_DISABLE_JIT"] = before


def replays(*, quick: bool, only: list[str], workers: int) -> dict[str, Any]:
    """Replay forced transcripts by some processes. Returns the report's part."""
    with interpreters(workers) as pool:
        every = pool.submit(replay_cases.cases, quick=quick).result()
        some = [case for case in every if not only or case.mechanism in only]
        found = list(pool.map(replay.replayed, some))
    for one in found:
        shares = ", ".join(f"{place} {share:.4f}" for place, share in one.shares.items())
        say(f"{one.name}: {one.runs} runs, {one.seconds:.1f} s: {shares}")
    given = {"only": ", ".join(only)} if only else {}
    return replay_of(found, workers=workers, quick=quick, **given)


def attacked_others(size: Size, workers: int) -> list[Cell]:
    """Attack what is no chain by some processes."""
    with ProcessPoolExecutor(workers, get_context("spawn"), quiet) as pool:
        count = OTHERS * size.releases
        some = [pool.submit(others.attacked_case, case, count) for case in others.wanted()]
        return [_told_of(future.result()) for future in some]


def _told_of(cell: Cell) -> Cell:
    say(
        f"{cell.algorithm}: claimed {cell.claim.epsilon:.3f}, at least {cell.lower:.3f}"
        f" ({cell.lower / cell.claim.epsilon:.0%}) by {cell.statistic}, {cell.seconds:.0f} s"
    )
    return cell


def audited(size: Size, only: list[str], workers: int) -> Audit:
    """Run an audit by some processes."""
    with ProcessPoolExecutor(workers, get_context("spawn"), quiet) as pool:
        looking = pool.submit(looked_for, size)
        attacks = {cell: pool.submit(attack, *cell, size) for cell in wanted(size, only)}
        cells = [found for cell, future in attacks.items() if (found := _told(cell, future))]
        outcome, ends = looking.result()
    counts: dict[str, Any] = {
        name: getattr(outcome, name) for name in ("tried", "refused", "planned", "ran", "seconds")
    }
    counts["by_algorithm"] = dict(outcome.by_algorithm)
    findings = [(one, request) for one, request, _ in outcome.found]
    forced = replays(quick=size == QUICK, only=only, workers=workers)
    settings = settings_of(workers=workers, **asdict(size))
    beside = [] if only else attacked_others(size, workers)
    return Audit(cells, counts, ends, findings, settings, forced, beside)


def _told(cell: tuple[str, str, int], future: "Future[Cell | None]") -> Cell | None:
    found = future.result()
    if found is None:
        return None
    say(
        f"{cell[0]:24} {cell[1]:14} {cell[2]:3} steps: claimed {found.claim.epsilon:6.3f},"
        f" at least {found.lower:6.3f} ({found.lower / found.claim.epsilon:4.0%}) by"
        f" {found.statistic}, {found.seconds:.0f} s"
    )
    return found
