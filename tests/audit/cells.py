"""What is attacked: every registered algorithm, options at which its noise hides least, neighbours.

For each algorithm and family candidates are tried on a few trials: options, the number of rows, the
row that is attacked, what it is replaced by, and the rows beside it, all at the corners of the
declared bounds. The candidate that is told apart best is then attacked with many fresh trials.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.inputs.schema import NumberColumn, Schema, Table
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.releases import RELEASES
from dpmcmc.samplers.algorithms import ALGORITHMS
from tests.audit import attacks
from tests.audit.bounds import CONFIDENCE, Claim, Counts, best_threshold, errors, rate_level
from tests.audit.noise import all_rows
from tests.audit.requests import Request, draws_of, event_of
from tests.cases import asked_for

Row = dict[str, int]
FREE_DRAWS = 500  # of a release, whose mean is nearly what was released
CHAINS = 16
ROWS = {False: (1, 2, 3), True: (1, 3, 100, 1000)}  # true: of releases, which need some to show any
DEPENDENT = 5.0  # standard errors of the correlation within a run, from which chains are not trials

X: dict[str, Any] = {"name": "x", "type": "number", "lower": -1.0, "upper": 1.0}
W: dict[str, Any] = {"name": "w", "type": "number", "lower": -1.0, "upper": 1.0}
Y: dict[str, Any] = {"name": "y", "type": "number", "lower": 0.0, "upper": 4.0}
L: dict[str, Any] = {"name": "l", "type": "number", "lower": 0.5, "upper": 4.0}  # above 0
B: dict[str, Any] = {"name": "b", "type": "binary", "categories": ["no", "yes"]}
G: dict[str, Any] = {"name": "g", "type": "category", "categories": ["a", "b", "c"]}
DESIGNS = (
    ((X,), "~ x"),
    ((X, B), "b ~ x"),
    ((X, Y), "y ~ x"),
    ((X, G), "g ~ x"),
    ((X, W), "~ x + w"),
    ((X, L), "l ~ x"),
    ((X, L), "I(l / 10) ~ x"),
    ((X, Y), "y | trials(y + 1) ~ x"),
    ((X, L, B), "surv(l, b) ~ x"),
)
SCALES = (0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 20.0)


def _walks(kind: str) -> list[dict[str, Any]]:
    fixed = {"kind": kind, "shape": "bactrian", "adapt": False, "stretch": 1.0}
    return [{"proposal": {**fixed, "scale": scale}} for scale in SCALES]


def _paths(algorithm: str) -> list[dict[str, Any]]:
    """Trajectories whose ratios tell most, and such whose gradients do."""
    loud = {"gradient_noise_multiplier": 100.0, "gradient_clip": 1e-6}
    ratios = [{**loud, "step_size": scale} for scale in SCALES]
    quiet = {"gradient_noise_multiplier": 1.0, "clip_bound": 1e-6}
    slopes = [
        {**quiet, "step_size": step, "gradient_clip": clip}
        for step, clip in itertools.product((0.3, 1.0, 2.0, 4.0), (0.1, 0.3, 1.0))
    ]
    several = {"num_leapfrog": 1} if algorithm == "dp_hmc" else {}
    return [{**some, **several} for some in (*ratios, *slopes)]


SHARP: dict[str, list[dict[str, Any]]] = {
    "dp_penalty": _walks("full"),
    "dp_penalty_component": _walks("component"),
    "dp_penalty_guided": _walks("component"),
    "dp_penalty_subsampled": [{**walk, "batch": b} for walk in _walks("full") for b in (2, 3)],
    "dp_barker": [{"scale": s, "batch": b, "adapt": False} for s in SCALES for b in (2, 3)],
    "dp_hmc": _paths("dp_hmc"),
    "dp_mala": _paths("dp_mala"),
    "noisy_mean": [{"shares": [1.0]}, {"shares": [0.3, 0.7]}],
}
"""Options worth trying, beside what the planner chooses. An algorithm without a line here is
attacked with what the planner chooses alone."""


@dataclass(frozen=True)
class Candidate:
    """A request, and two neighbouring tables, of which all rows but the first are known.

    pair: what the first row may be. beside: the other rows, again and again.
    """

    request: Request
    pair: tuple[Row, Row]
    beside: tuple[Row, ...]

    def tables(self) -> tuple[Table, Table]:
        """Return both datasets."""
        schema = self.request.schema()
        others = [self.beside[k % len(self.beside)] for k in range(schema.rows - 1)]
        first, second = (_table(schema, [row, *others]) for row in self.pair)
        return first, second


def _table(schema: Schema, rows: list[Row]) -> Table:
    columns: dict[str, Any] = {}
    for column in schema.columns:
        sides = np.array([row[column.name] for row in rows])
        if isinstance(column, NumberColumn):
            columns[column.name] = np.where(sides == 1, column.upper, column.lower)
        else:
            columns[column.name] = sides.astype(np.int32)
    return Table(columns=columns, rows=schema.rows)


@dataclass(frozen=True)
class Plan:
    """A resolved request, and what one trial of it costs."""

    schema: Schema
    spec: JobSpec
    claim: Claim
    chains: int


def planned(request: Request, chains: int) -> Plan:
    """Plan one trial, for its cost, and as many side by side as are run at once."""
    alone = request.plan()
    together = Request(request.columns, request.rows, _with(request.job, num_chains=chains)).plan()
    one, many = alone.noise_multiplier, together.noise_multiplier
    if one != many:
        raise ValueError("a chain must be as noisy beside others as it is alone")
    cost = alone.cost
    claim = Claim(cost.epsilon, cost.delta, cost.mu)
    return Plan(request.schema(), together.spec, claim, chains)


def _with(job: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {**job, "sampler": {**job["sampler"], **options}}


def trials(plan: Plan, table: Table, count: int) -> np.ndarray:
    """Return (trial, draw, d) of `count` trials or a few more, by the path of a worker."""
    random = SystemRandom()  # what a run makes for itself; one of them saves keys
    runs = -(-count // plan.chains)
    paid = digest(event_of(plan.schema, plan.spec))
    found = [draws_of(plan.schema, plan.spec, table, random, paid) for _ in range(runs)]
    return np.concatenate(found)


@dataclass
class Cell:
    """One attack. lower: bound of epsilon at 95 %; sure: the bound that must not exceed the claim.

    steps: of a chain. statistic: the distinguisher that was best in training.
    """

    algorithm: str
    family: str
    steps: int
    candidate: Candidate
    claim: Claim
    statistic: str = ""
    counts: Counts = field(default_factory=lambda: Counts(1, 1, 1, 1))
    lower: float = 0.0
    correlation: float = 0.0
    trial: str = "chain"
    seconds: float = 0.0

    def sure(self, alpha: float) -> float:
        """Return the bound at another level."""
        return self.counts.bound(self.claim, alpha)


def candidates(
    algorithm: str, family: str, noise_multiplier: float, delta: float, steps: int
) -> list[Candidate]:
    """Return what may be tried, in random order."""
    tried = [{}, *SHARP.get(algorithm, [])]
    found = []
    for columns, formula in DESIGNS:
        for options, rows in itertools.product(tried, ROWS[algorithm in RELEASES]):
            sampler = {"algorithm": algorithm, "num_steps": steps, "num_chains": 1}
            if algorithm in RELEASES:
                sampler["num_steps"] = FREE_DRAWS
            job = {
                "model": asked_for(family, formula),
                "sampler": {**sampler, "num_warmup": 0, **options},
                "privacy": {"delta": delta, "noise_multiplier": noise_multiplier},
            }
            request = Request(columns, rows, job)
            try:
                request.plan()
            except SpecError:
                continue
            corners = all_rows(request.schema())
            for pair in itertools.combinations(corners, 2):
                several = [(corner,) for corner in corners] if rows > 1 else [()]
                several += [tuple(corners)] if rows > len(corners) else []
                found.extend(Candidate(request, pair, beside) for beside in several)
        if found:
            break
    return found


def scores_of(
    candidate: Candidate, plan: Plan, zeros: np.ndarray, ones: np.ndarray
) -> dict[str, attacks.Score]:
    """Return the distinguishers of a candidate, learned from these trials."""
    release = plan.spec.sampler.algorithm in RELEASES
    if release:
        features: Callable[[Any], Any] = attacks.release_features
    else:
        features = attacks.chain_features(attacks.start_of(plan.schema, plan.spec))
    learned = attacks.learned(features(zeros), features(ones))
    found = {
        name: (lambda draws, score=score: score(features(draws))) for name, score in learned.items()
    }
    if walks_alone(plan):
        found["known mechanism"] = attacks.penalty_odds(plan.schema, plan.spec, candidate.tables())
    return found


def walks_alone(plan: Plan) -> bool:
    """Whether the decisions of this job are a penalty walk in one dimension on all rows."""
    options = plan.spec.sampler
    known = options.algorithm in ("dp_penalty", "dp_penalty_component")
    return known and len(plan.schema.columns) == 1


def best_score(
    scores: dict[str, attacks.Score], zeros: np.ndarray, ones: np.ndarray, claim: Claim
) -> tuple[str, float, float]:
    """Return (name, threshold, level) of the distinguisher with the best bound in training."""
    best = ("", 0.0, -np.inf)
    for name, score in scores.items():
        zero, one = score(zeros), score(ones)
        for prefix, sign in (("", 1.0), ("-", -1.0)):
            threshold, level = best_threshold(sign * zero, sign * one, claim, 1.0 - CONFIDENCE)
            if not best[0] or level > best[2]:
                best = (prefix + name, threshold, level)
    return best


def signed(scores: dict[str, attacks.Score], name: str) -> attacks.Score:
    """Return the score of a name from best_score."""
    if name.startswith("-"):
        return lambda draws: -scores[name[1:]](draws)
    return scores[name]


def tried(candidate: Candidate, count: int, chains: int) -> float:
    """Return how well a candidate is told apart by few trials, as a level. Infinite never."""
    plan = planned(candidate.request, chains)
    zeros, ones = (trials(plan, table, count) for table in candidate.tables())
    half = len(zeros) // 2
    scores = scores_of(candidate, plan, zeros[:half], ones[:half])
    scores.pop("known mechanism", None)
    name, threshold, _ = best_score(scores, zeros[:half], ones[:half], plan.claim)
    score = signed(scores, name)
    counts = errors(score(zeros[half:]), score(ones[half:]), threshold)
    level = rate_level(
        counts.false_positives, counts.n0, counts.false_negatives, counts.n1, 0.5, plan.claim
    )
    claimed = plan.claim.mu if plan.claim.mu is not None else plan.claim.epsilon
    return float(level) / claimed


def chosen(some: list[Candidate], pilot: int, most: int, chains: int) -> Candidate:
    """Return the candidate that is told apart best: many on few trials, then few on many."""
    choose = np.random.default_rng()
    some = [some[k] for k in choose.permutation(len(some))[:most]]
    while len(some) > 1:
        levels = [tried(one, pilot, chains) for one in some]
        keep = max(1, len(some) // 6)
        some = [some[k] for k in np.argsort(levels)[::-1][:keep]]
        pilot *= 6
    return some[0]


def attacked(candidate: Candidate, count: int, chains: int) -> Cell:
    """Attack a candidate: learn on one half of the trials, count errors on the other."""
    began = time.monotonic()
    plan = planned(candidate.request, chains)
    model, options = plan.spec.model, plan.spec.sampler
    cell = Cell(options.algorithm, model.family, options.num_steps or 0, candidate, plan.claim)
    zeros, ones = (trials(plan, table, count) for table in candidate.tables())
    half = len(zeros) // 2
    train = zeros[:half], ones[:half]
    scores = scores_of(candidate, plan, *train)
    cell.statistic, threshold, _ = best_score(scores, *train, plan.claim)
    score = signed(scores, cell.statistic)
    zero, one = score(zeros[half:]), score(ones[half:])
    cell.correlation = max(within(zero, chains), within(one, chains))
    if chains > 1 and cell.correlation > DEPENDENT:
        zero, one, cell.trial = zero[::chains], one[::chains], "first chain"
    cell.counts = errors(zero, one, threshold)
    cell.lower = cell.counts.bound(plan.claim, 1.0 - CONFIDENCE)
    cell.seconds = time.monotonic() - began
    return cell


def within(scores: np.ndarray, chains: int) -> float:
    """Return how many standard errors above 0 scores of one run are correlated."""
    runs = scores[: len(scores) // chains * chains].reshape(-1, chains)
    if chains == 1 or runs.std() == 0.0:
        return 0.0
    clipped = np.clip(runs, *np.quantile(runs, (0.001, 0.999)))
    whole = float(clipped.std()) ** 2
    if whole == 0.0:
        return 0.0
    ratio = chains * float(clipped.mean(axis=1).var()) / whole
    return float((ratio - 1.0) / np.sqrt(2.0 / len(runs)))


def families_of(algorithm: str) -> Iterator[str]:
    """Return the families that it can be asked for."""
    release = RELEASES.get(algorithm)
    for family, model in MODELS.items():
        if model.chains if release is None else family in release.families:
            yield family


def names() -> list[str]:
    """Return every registered algorithm."""
    return list(ALGORITHMS)
