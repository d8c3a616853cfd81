"""A search over the whole request schema for a request whose noise is not what is claimed."""

import collections
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.inputs.spec import ModelSpec, PrivacySpec
from dpmcmc.samplers.algorithms import ALGORITHMS
from tests.audit import schemas
from tests.audit.noise import Finding, of_plan, of_run, runnable
from tests.audit.requests import Request, adapter
from tests.cases import asked_for

COLUMNS: tuple[dict[str, Any], ...] = (
    {"name": "x", "type": "number", "lower": -1.0, "upper": 1.0},
    {"name": "w", "type": "number", "lower": 0.0, "upper": 3.0},
    {"name": "y", "type": "number", "lower": 0.0, "upper": 4.0},
    {"name": "b", "type": "binary", "categories": ["no", "yes"]},
    {"name": "g", "type": "category", "categories": ["a", "b", "c"]},
)
FORMULAS = (
    "~ x", "~ x + w", "y ~ x", "y ~ x + w", "b ~ x", "b ~ x + w", "y ~ x:w", "y ~ b", "g ~ x",
    "g ~ x + w",
)  # fmt: skip
LONGER = 12  # attempts to mend a refused request by leaving out what was refused
SMALLEST_ROWS = 1


@cache
def _schema(kind: type[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    made = adapter(kind).json_schema()
    return made, made.get("$defs", {})


def admitted(request: Request) -> bool:
    """Whether the planner takes it."""
    try:
        request.plan()
    except SpecError:
        return False
    except Exception:  # the search finds those
        return False
    return True


def bases() -> dict[str, list[Request]]:
    """Return, by algorithm, one admitted request for every family that it suits."""
    found: dict[str, list[Request]] = {}
    for algorithm in ALGORITHMS:
        found[algorithm] = []
        for family in MODELS:
            for formula in FORMULAS:
                job = {
                    "model": asked_for(family, formula),
                    "sampler": {"algorithm": algorithm, "num_steps": 3, "num_chains": 1},
                    "privacy": {"delta": 1e-6, "noise_multiplier": 1.0},
                }
                request = Request(COLUMNS, 20, job)
                if admitted(request):
                    found[algorithm].append(request)
                    break
    return found


Ends = dict[tuple[str, schemas.Path], schemas.Ends | None]


def discovered(known_bases: dict[str, list[Request]]) -> Ends:
    """Return the ends of every number of the request schema, by (algorithm or part, place)."""
    found: Ends = {}
    shared: dict[schemas.Path, schemas.Ends | None] = {}
    for algorithm, some in known_bases.items():
        for path, kind in schemas.numbers(*_schema(ALGORITHMS[algorithm].options)):
            known = shared.get(path)
            if known and all(_takes(some, "sampler", path)(v) for v in (known.low, known.high)):
                found[algorithm, path] = known
            else:
                known = schemas.ends(_takes(some, "sampler", path), kind == "integer")
                found[algorithm, path] = shared[path] = known
    every = [request for some in known_bases.values() for request in some[:2]]
    one_each = {request.job["model"]["family"]: request for request in every}
    for part, spec in (("model", ModelSpec), ("privacy", PrivacySpec)):
        for path, kind in schemas.numbers(*_schema(spec)):
            takes = _takes(list(one_each.values()), part, path)
            found[part, path] = schemas.ends(takes, kind == "integer")
    return found


def _takes(some: list[Request], part: str, path: schemas.Path) -> Callable[[float], bool]:
    """Return whether any of some requests is admitted with this number at this place of a part."""

    def takes(value: float) -> bool:
        listed = [_listed(one, part) for one in some[:1]] if path[-1] == "*" else []
        for request in (*some[:2], *listed):
            job = dict(request.job)
            job[part] = schemas.put(job[part], path, value)
            if part == "privacy" and path == ("epsilon",):
                job[part].pop("noise_multiplier")
            if admitted(Request(request.columns, request.rows, job)):
                return True
        return False

    return takes


def _listed(request: Request, part: str) -> Request:
    """Return the request with every list of this part given, one number long."""
    if part != "sampler":
        return request
    kind = ALGORITHMS[request.job["sampler"]["algorithm"]].options
    lists = [path[0] for path, _ in schemas.numbers(*_schema(kind)) if path[1:] == ("*",)]
    job = {**request.job, part: request.job[part] | {name: [1.0] for name in lists}}
    return Request(request.columns, request.rows, job)


def explored() -> "Known":
    """Return what a search needs to know."""
    made = bases()
    return Known(made, discovered(made))


def bounds() -> st.SearchStrategy[tuple[float, float]]:
    """Return declared bounds: of every width, around 0 and far from it."""

    def made(middle: float, width: float, sign: float) -> tuple[float, float]:
        centre, half = sign * 10.0**middle, 0.5 * 10.0**width
        return centre - half, centre + half

    usual = st.sampled_from([(-1.0, 1.0), (0.0, 1.0), (0.0, 5.0), (-6.0, 6.0)])
    near = st.builds(made, st.floats(-3, 9), st.floats(-3, 9), st.sampled_from([0.0, 1.0, -1.0]))
    far = st.builds(made, st.floats(-30, 290), st.floats(-30, 290), st.sampled_from([0.0, 1.0]))
    mostly = st.sampled_from([usual, usual, usual, near, near, far])
    return mostly.flatmap(lambda one: one).filter(lambda ends: ends[0] < ends[1])


BOUNDS = bounds()


@dataclass(frozen=True, eq=False)
class Known:
    """What was found out before a search: admitted requests by algorithm, and ends of numbers."""

    bases: dict[str, list[Request]]
    ends: Ends

    @cached_property
    def parts(self) -> dict[str, st.SearchStrategy[Any]]:
        """Strategies of each algorithm's options, of models and of privacy."""
        kinds = {name: algorithm.options for name, algorithm in ALGORITHMS.items()}
        kinds |= {"model": ModelSpec, "privacy": PrivacySpec}
        return {
            name: st.one_of(
                *(
                    schemas.values(*_schema(kind), self.of(name), (), numbers)
                    for numbers in (schemas.any_number, schemas.extreme)
                )
            )
            for name, kind in kinds.items()
        }

    @cached_property
    def levels(self) -> dict[str, st.SearchStrategy[Any]]:
        """Strategies of the one number that every job needs."""
        names = ("epsilon", "noise_multiplier")
        ends = self.of("privacy")
        return {
            name: st.one_of(
                schemas.any_number(ends.get((name,)), whole=False),
                schemas.extreme(ends.get((name,)), whole=False),
            )
            for name in names
        }

    def of(self, part: str) -> dict[schemas.Path, schemas.Ends | None]:
        """Return the ends of the numbers of an algorithm's options, of a model or of privacy."""
        return {path: ends for (name, path), ends in self.ends.items() if name == part}


@st.composite
def requests(draw: Any, known: Known) -> Request:
    """Return any request of the schema: numbers at their ends, around them, and in between."""
    base = draw(st.sampled_from(known.bases[draw(st.sampled_from(list(known.bases)))]))
    algorithm = base.job["sampler"]["algorithm"]
    columns = []
    for column in COLUMNS:
        if column["type"] == "number":
            low, high = draw(BOUNDS)
            column = {**column, "lower": low, "upper": high}
        columns.append(column)
    sampler = _even(draw(known.parts[algorithm]), draw(st.integers(0, 4)))
    if draw(st.integers(0, 3)):
        sampler["num_steps"] = draw(st.integers(1, 4))
    own = base.job["model"]
    model = draw(known.parts["model"]) | {key: own[key] for key in ("family", "formula")}
    if not draw(st.integers(0, 3)):
        model["formula"] = draw(st.sampled_from(FORMULAS))
    privacy = draw(known.parts["privacy"])
    if len({"epsilon", "noise_multiplier"} & set(privacy)) != 1:
        one = draw(st.sampled_from(["epsilon", "noise_multiplier"]))
        privacy = {"delta": privacy["delta"], one: draw(known.levels[one])}
    rows = draw(st.one_of(st.integers(1, 40), st.floats(0.0, 10.0).map(lambda k: int(10.0**k))))
    return Request(tuple(columns), rows, {"model": model, "sampler": sampler, "privacy": privacy})


def _even(sampler: dict[str, Any], most: int) -> dict[str, Any]:
    """Cut all lists to one length, for they mostly belong together; most: 0 to leave them."""
    lists = {name: value for name, value in sampler.items() if isinstance(value, list)}
    length = min([most, *(len(value) for value in lists.values())])
    return sampler | {name: value[: length or None] for name, value in lists.items()}


@dataclass
class Outcome:
    """What a search saw. found: by kind of finding, the requests, smallest first, and what."""

    tried: int = 0
    refused: int = 0
    planned: int = 0
    ran: int = 0
    seconds: float = 0.0
    by_algorithm: collections.Counter[str] = field(default_factory=collections.Counter)
    why: collections.Counter[str] = field(default_factory=collections.Counter)
    found: list[tuple[Finding, Request, int]] = field(default_factory=list)


def examine(request: Request, outcome: Outcome, choose: np.random.Generator) -> list[Finding]:
    """Plan a request, and run it where that is quick. Returns what is not as claimed."""
    outcome.tried += 1
    try:
        planned = request.plan()
    except SpecError as refused:
        outcome.refused += 1
        outcome.why[refused.pointer] += 1
        raise
    except Exception as error:
        return [Finding("raised in the planner", f"{type(error).__name__}: {error}")]
    outcome.planned += 1
    outcome.by_algorithm[planned.spec.sampler.algorithm] += 1
    found = of_plan(planned)
    if runnable(request, planned):
        outcome.ran += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found += of_run(request, planned, choose)
    return found


def mended(request: Request, pointer: str, known: Known) -> Request | None:
    """Return the request without what was refused; None where that is not one option of many."""
    place = [part for part in pointer.split("/") if part and not part.isdigit()]
    if len(place) < 2 or place[0] not in request.job:
        return None
    base = known.bases[request.job["sampler"]["algorithm"]][-1]
    parts = place[:2]
    if parts in (["model", "formula"], ["sampler", "algorithm"], ["model", "family"]):
        own = base.job["model"]
        model = {**request.job["model"], "family": own["family"], "formula": own["formula"]}
        if model == request.job["model"]:  # it is the columns
            return Request(COLUMNS, request.rows, request.job)
        job: dict[str, Any] | None = {**request.job, "model": model}
    elif parts[0] == "privacy":
        job = {**request.job, "privacy": base.job["privacy"]}
    elif (one := _alone(request.job["sampler"])) != request.job["sampler"] and parts[1] in one:
        job = {**request.job, "sampler": one}
    else:
        job = _without(request.job, place)
    return None if job is None else Request(request.columns, request.rows, job)


def _alone(sampler: dict[str, Any]) -> dict[str, Any]:
    """Return options whose lists are one number long."""
    return {name: v[:1] if isinstance(v, list) else v for name, v in sampler.items()}


def _without(tree: dict[str, Any], place: list[str]) -> dict[str, Any] | None:
    head, *rest = place
    if head not in tree:
        return None
    if rest and isinstance(tree[head], dict):
        inner = _without(tree[head], rest)
        return None if inner is None else {**tree, head: inner}
    return {name: value for name, value in tree.items() if name != head}


def shrunk(request: Request, kind: str) -> Request:
    """Return the request with all that the finding does not need left out."""
    choose, again = np.random.default_rng(), True
    while again:
        again = False
        for smaller in _smaller(request):
            try:
                found = examine(smaller, Outcome(), choose)
            except Exception:
                continue
            if any(one.kind == kind for one in found):
                request, again = smaller, True
                break
    return request


def _smaller(request: Request) -> Iterator[Request]:
    if request.columns != COLUMNS:
        yield Request(COLUMNS, request.rows, request.job)
    for rows in {1, 2, 20} - {request.rows}:
        if rows < request.rows:
            yield Request(request.columns, rows, request.job)
    for place in _places(request.job):
        job = _without(request.job, list(place))
        if job is not None:
            yield Request(request.columns, request.rows, job)


def _places(tree: dict[str, Any], path: schemas.Path = ()) -> Iterator[schemas.Path]:
    for name, value in tree.items():
        if path:
            yield (*path, name)
        if isinstance(value, dict):
            yield from _places(value, (*path, name))


def search(known: Known, most: int, seconds: float, each_kind: int = 1) -> Outcome:
    """Try up to `most` requests, and return what was found in that time."""
    outcome, began, choose = Outcome(), time.process_time(), np.random.default_rng()
    seen: collections.Counter[tuple[str, str]] = collections.Counter()

    @settings(
        *(),
        max_examples=most,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(requests(known))
    def tried(request: Request) -> None:
        for _ in range(LONGER):
            if outcome.tried >= most or time.process_time() - began > seconds:
                return
            try:
                found = examine(request, outcome, choose)
            except SpecError as refused:
                other = mended(request, refused.pointer, known)
                if other is None or other == request:
                    return
                request = other
                continue
            for one in found:
                key = one.kind, request.job["sampler"]["algorithm"]
                seen[key] += 1
                if seen[key] <= each_kind:
                    outcome.found.append((one, request, outcome.tried))
            return

    tried()
    outcome.seconds = time.process_time() - began
    return outcome
