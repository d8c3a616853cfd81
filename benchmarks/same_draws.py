"""Whether two trees give the same draws, bit for bit, from the same random numbers.

    python benchmarks/same_draws.py OLD_TREE NEW_TREE [--only TEXT]

Every sampler and release is run on every model, with several options, and every tree in a process
of its own. Compared are hashes of draws, of what a release stores and of posteriors that follow
from it, and of plans with their costs and their words; where a job is refused, of the refusal.
Prints a table, and exits with 1 where anything differs or the new tree lacks a case; what only the
new tree has, as an algorithm that was added, is told as new. In place of a tree goes a file that
`PYTHONPATH=TREE OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/same_draws.py --hashes
> FILE` wrote: with another number of threads libraries add up in another order.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROWS, STEPS, CHAINS, WARMUP = 300, 36, 2, 12
HOMES = ("inputs.options", "samplers", "releases", "samplers.algorithms")
DIGESTS = ("privacy.event_json", "privacy.events")


class Seeded:
    """A RandomSource of a fixed seed, as tests have one; here so that trees need no tests."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(20)

    def normals(self, shape: Any) -> Any:
        return self.rng.standard_normal(shape)

    def uniforms(self, shape: Any) -> Any:
        return 1.0 - self.rng.random(shape)

    def integers(self, high: int, shape: Any) -> Any:
        return self.rng.integers(high, size=shape)

    def words(self, count: int) -> Any:
        return self.rng.integers(2**64, size=count, dtype=np.uint64)


def named(name: str) -> Any:
    """What has this name in the tree, in whichever of its modules."""
    for home in HOMES:
        try:
            return getattr(import_module(f"dpmcmc.{home}"), name)
        except (ImportError, AttributeError):
            continue
    raise AttributeError(name)


def digest_of(event: Any) -> str:
    """Digest of an event, by the tree's own function."""
    for home in DIGESTS:
        with suppress(ImportError, AttributeError):
            return str(import_module(f"dpmcmc.{home}").digest(event))
    raise AttributeError("digest")


def table() -> tuple[dict[str, Any], Any]:
    """Rows for all models, and their schema."""
    from dpmcmc import BinaryColumn, CategoryColumn, NumberColumn, Schema

    rng = np.random.default_rng(7)
    x, z, shift = rng.uniform(-1, 1, ROWS), rng.uniform(0, 10, ROWS), rng.uniform(0, 1, ROWS)
    group = rng.choice(["a", "b", "c"], ROWS)
    eta = 0.3 + x - 0.1 * z + 0.5 * (group == "b")
    data = {"x": x, "z": z, "g": group, "shift": shift, "w": rng.uniform(0.5, 2.0, ROWS)}
    data["gap"] = np.where(rng.random(ROWS) < 0.1, -9.0, rng.uniform(0, 1, ROWS))
    data["bin"] = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-eta)), "yes", "no")
    data["count"] = np.minimum(rng.poisson(np.exp(0.5 * eta)), 20).astype(float)
    data["num"] = np.clip(eta + rng.normal(size=ROWS), -6, 6)
    data["job"] = rng.choice(["low", "mid", "high"], ROWS)
    numbers = {"x": (-1, 1), "z": (0, 10), "shift": (0, 1), "w": (0.5, 2), "count": (0, 20)}
    columns = [
        *(NumberColumn(name=n, lower=a, upper=b) for n, (a, b) in numbers.items()),
        NumberColumn(name="num", lower=-6, upper=6),
        NumberColumn(name="gap", lower=0, upper=1, missing=(-9.0,)),
        CategoryColumn(name="g", categories=("a", "b", "c")),
        CategoryColumn(name="job", categories=("low", "mid", "high")),
        BinaryColumn(name="bin", categories=("no", "yes")),
    ]
    return data, Schema(columns=tuple(columns), rows=ROWS)


def models() -> dict[str, Any]:
    """Every family, and what else changes the way of its rows."""
    from dpmcmc import ModelOptions, ModelSpec, NormalPrior

    wide = NormalPrior(scale=10.0)
    known, means = ModelOptions(noise_scale=1.0), ModelOptions(variances=(1.0, 4.0))
    bent = ModelOptions(variances=(1.0, 4.0), a=0.1)
    natural = ModelOptions(variances=(1.0, 4.0), a=0.1, coordinates="natural")
    slope, uneven = ModelOptions(ratio_slope=2.0), ModelOptions(dispersion=2.7)
    at = {
        "logistic": ("logistic", "bin ~ x + z + g", {}),
        "logistic, tempered": ("logistic", "bin ~ x", {"tempering": 0.4, "prior": wide}),
        "logistic, gaps": ("logistic", "bin ~ x + gap", {}),
        "logistic, weights": ("logistic", "bin ~ x + offset(shift)", {"weights": "w"}),
        "logistic, bases": ("logistic", "bin ~ bs(z, df=4) + x:g", {}),
        "linear": ("linear", "num ~ x + z", {}),
        "linear, gaps": ("linear", "num ~ gap", {}),
        "linear, known noise": ("linear", "num ~ x + g", {"options": known}),
        "linear, weights": ("linear", "num ~ x", {"weights": "w"}),
        "linear, slope": ("linear", "num ~ x", {"options": slope, "tempering": 0.5}),
        "poisson": ("poisson", "count ~ x + g", {}),
        "poisson, offset": ("poisson", "count ~ x + offset(shift)", {}),
        "poisson, slope": ("poisson", "count ~ x + z", {"options": slope}),
        "negative_binomial": ("negative_binomial", "count ~ x + g", {"options": uneven}),
        "student_t": ("student_t", "num ~ x + g", {}),
        "student_t, gaps": ("student_t", "num ~ gap + offset(shift)", {"weights": "w"}),
        "multinomial": ("multinomial", "job ~ x + z", {}),
        "gaussian_mean": ("gaussian_mean", "~ x + z", {"options": means}),
        "gaussian_mean, gaps": ("gaussian_mean", "~ gap", {}),
        "banana": ("banana", "~ x + z", {"options": bent, "prior": wide}),
        "banana, natural": ("banana", "~ x + z", {"options": natural, "prior": wide}),
    }
    return {name: ModelSpec(family=f, formula=y, **more) for name, (f, y, more) in at.items()}


BUDGET = {"epsilon": 60.0}
SMALL = {"epsilon": 1.0}
NOISE = {"noise_multiplier": 1.5}


def variants(options: type) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, budget, options) of an algorithm: whatever it knows of."""
    known = {field.name for field in fields(options)}
    short = {"num_steps": STEPS, "num_chains": CHAINS}
    if "clip_width" not in known:
        yield "epsilon", SMALL, short
        yield "noise multiplier", {"noise_multiplier": 0.05}, {**short, "num_warmup": 4}
        yield "generous", {"epsilon": 200.0}, {"num_steps": STEPS}
        for more in (
            {"num_far": 3},
            {"whitening": "new"},
            {"shares": (0.3, 0.6), "clip_bounds": (9.0, 3.0)},
            {"clip_bound": 2.0},
        ):
            if set(more) <= known:
                yield str(more), {"epsilon": 8.0}, {**short, **more}
        return
    yield "from epsilon", BUDGET, short
    yield "cold", NOISE, {**short, "num_warmup": WARMUP}
    yield "small epsilon", SMALL, {**short, "num_warmup": WARMUP}
    yield "clip bound", BUDGET, {**short, "clip_bound": 0.5, "num_warmup": WARMUP}
    yield "clip width", NOISE, {**short, "clip_width": 0.2}
    yield "share", BUDGET, {**short, "start": named("Start")(share=0.4), "num_warmup": WARMUP}
    if "proposal" in known:
        kind = next(field for field in fields(options) if field.name == "proposal")
        proposal = kind.default_factory  # type: ignore[union-attr]
        yield "scale", NOISE, {**short, "proposal": proposal(scale=0.1, shape="normal")}
        fitted = proposal(adapt=True, stretch=2.0)
        yield (
            "fitted",
            {"epsilon": 300.0},
            {"num_steps": 400, "num_warmup": 200, "proposal": fitted},
        )
        if proposal is named("Proposal"):
            yield "full", BUDGET, {**short, "proposal": proposal(kind="full")}
    for more in (
        {"batch": 60},
        {"batch": ROWS},
        {"batch": 100, "scale": 0.1, "adapt": True},
        {"num_leapfrog": 2, "step_size": 0.2},
        {"gradient_clip": 1.0, "gradient_noise_multiplier": 3.0},
    ):
        if set(more) <= known:
            yield str(more), BUDGET, {**short, **more, "num_warmup": WARMUP}
            yield f"{more}, cold", NOISE, {**short, **more}


def shown(told: Any) -> str:
    """Numbers and words with all their digits, arrays in full, dictionaries in order of keys."""
    if isinstance(told, np.ndarray):
        kind, content = told.dtype.str, np.ascontiguousarray(told).tobytes()
        return f"{kind}{told.shape}{hashlib.sha256(content).hexdigest()}"
    if isinstance(told, dict):
        return repr(sorted((str(key), shown(value)) for key, value in told.items()))
    if isinstance(told, list | tuple):
        return repr([shown(value) for value in told])
    return repr(told)


def hashed(told: Any) -> str:
    return hashlib.sha256(shown(told).encode()).hexdigest()[:16]


def of_plan(plan: Any) -> dict[str, Any]:
    """What a plan says, whatever its classes are called."""
    told = {field.name: getattr(plan, field.name) for field in fields(plan)}
    event = digest_of(told.pop("event"))
    spec = given(asdict(told["spec"]))
    return {**told, "event": event, "spec": spec, "cost": asdict(told["cost"])}


def given(told: Any) -> Any:
    """What is not None, so that an option that one tree lacks is no difference by itself."""
    if isinstance(told, dict):
        return {name: given(value) for name, value in told.items() if value is not None}
    return told


def of_release(release: Any) -> list[Any]:
    """What is kept of a release, and what follows from it."""
    found = [release.to_dict(), str(release.verdict)]
    try:
        free = release.posterior(random=Seeded())
        found += [free.draws, free.summary()]
        name = release.parameters[0]
        found += [free.contrast({name: 2.0}), free.bayes_factor({name: 0.1})]
    except Exception as refusal:  # compared as it is
        found.append(repr(refusal))
    return found


def of_job(schema: Any, data: Any, model: Any, options: Any, budget: dict[str, Any]) -> str:
    """Hash of all that a job gives; of its plan alone where it leaves its length open."""
    from dpmcmc import JobSpec, PrivacySpec, plan, sample

    try:
        asked = JobSpec(model=model, sampler=options, privacy=PrivacySpec(delta=1e-5, **budget))
        made = [of_plan(plan(schema, asked))]
        if options.num_steps is not None:
            told = sample(
                data, schema=schema, model=model, delta=1e-5, sampler=options,
                random=Seeded(), **budget,
                accept_low_quality=True,
            )  # fmt: skip
            made += [told.draws, told.on(), str(told.verdict), str(told)]
            made += of_release(told.release) if told.release is not None else []
        return hashed(made)
    except ValueError as refusal:
        return "refused " + hashed(str(refusal))


def again(schema: Any, data: Any, model: Any) -> str:
    """Hash of a release that uses an earlier one's whitening."""
    from dpmcmc import sample

    options = named("NoisyQuadraticOptions")(num_steps=STEPS, num_chains=CHAINS)
    same = {"schema": schema, "delta": 1e-5, "epsilon": 5.0, "sampler": options}
    try:
        first = sample(data, model=model, random=Seeded(), **same, accept_low_quality=True)
        told = sample(
            data,
            model=model,
            random=Seeded(),
            whitening=first.release,
            **same,
            accept_low_quality=True,
        )
        return hashed([told.draws, told.plan.reasons, *of_release(told.release)])
    except ValueError as refusal:
        return "refused " + hashed(str(refusal))


def hashes(only: str) -> Iterator[tuple[str, str]]:
    """(case, hash) of the tree that this process runs in."""
    samplers, releases = (import_module(f"dpmcmc.{name}") for name in ("samplers", "releases"))
    data, schema = table()
    algorithms = {**samplers.SAMPLERS, **releases.RELEASES}
    for called, model in models().items():
        for name, algorithm in algorithms.items():
            for variant, budget, given in variants(algorithm.options):
                case = f"{called} | {name} | {variant}"
                if only in case:
                    yield case, of_job(schema, data, model, algorithm.options(**given), budget)
            case = f"{called} | {name} | plan alone"
            if only in case:
                yield case, of_job(schema, data, model, algorithm.options(), BUDGET)
        for epsilon in (0.5, 8.0, 2000.0):
            case = f"{called} | auto | plan at epsilon {epsilon:g}"
            if only in case:
                auto = named("AutoOptions")()
                yield case, of_job(schema, data, model, auto, {"epsilon": epsilon})
        if only in (case := f"{called} | noisy_quadratic | whitening again"):
            yield case, again(schema, data, model)


def ask(tree: Path, only: str) -> dict[str, str]:
    """Cases and hashes of a tree, from a process that knows no other; or from a file of them."""
    if tree.is_file():
        every = json.loads(tree.read_text())["cases"]
        return {case: told for case, told in every if only in case}
    known = {**os.environ, "PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(tree / "var" / "numba")}
    known |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    call = [sys.executable, str(Path(__file__).resolve()), "--hashes", "--only", only]
    done = subprocess.run(call, cwd=tree, env=known, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    if not Path(told["package"]).is_relative_to(tree):
        raise SystemExit(f"{told['package']} was run in place of {tree}")
    return dict(told["cases"])


def compare(old: Path, new: Path, only: str) -> int:
    """Print the table. Returns how many cases differ."""
    with ThreadPoolExecutor(2) as pool:
        before, after = pool.map(lambda tree: ask(tree, only), (old, new))
    differ, refused, added = 0, 0, [case for case in after if case not in before]
    for case, told in before.items():
        same = told == after.get(case)
        refused += same and told.startswith("refused")
        differ += not same
        note = " (refused)" if same and told.startswith("refused") else ""
        print(f"{'same' if same else 'DIFFERS':8}{case}{note}")
    for case in added:
        print(f"{'new':8}{case}")
    told = f"{differ or 'none'} differ; {len(added)} more are new"
    print(f"{len(before)} cases, {refused} of them refused: {told}")
    return differ if before else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=lambda name: Path(name).resolve())
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--hashes", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hashes:
        package = import_module("dpmcmc").__file__
        print(json.dumps({"package": package, "cases": list(hashes(given.only))}))
        return 0
    if len(given.trees) != 2:
        parser.error("two trees are needed")
    return int(compare(*given.trees, given.only) > 0)


if __name__ == "__main__":
    sys.exit(main())
