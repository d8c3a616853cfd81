"""Is the noise of a request what it is charged for? Measured, at the numbers of the request."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from dpmcmc.families import MODELS
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.planner import Plan
from dpmcmc.privacy.accountant import gdp_mu
from dpmcmc.privacy.events import Gaussian, WithoutReplacement
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.privacy.pld import leaves
from dpmcmc.releases import RELEASES
from tests.audit.mechanism import (
    Decisions,
    Floats,
    Record,
    Release,
    answers,
    decisive,
    noisy,
    recording,
)
from tests.audit.requests import Request, corners, draws_of, event_of, replaced, shortened

FEW, MANY = 40_000, 1_000_000  # draws of a first look, and where that is suspicious
LOOK, LIMIT = 0.008, 0.01  # of the sd: what is suspicious, and what is wrong
SURE = 6.0  # standard errors
FAR_OFF = 100.0  # sds, of an entry that is held at the end of what is counted
AT_ZERO = 0.01  # most draws that may be exactly 0
RUN_ROWS, RUN_STEPS, RUN_SCORES, RUN_RELEASES = 400, 3, 40, 3
ROUNDED = 1.0 + 1e-9


@dataclass(frozen=True)
class Finding:
    """Something that is not as it is claimed. kind: a short name; found: what, in words."""

    kind: str
    found: str


Noisy = Release | Decisions


def normalised(noisy_one: Noisy, count: int, random: SystemRandom) -> Floats:
    """Return at least `count` draws of noise, in units of what is claimed."""
    z = noisy_one.noise_multiplier
    if isinstance(noisy_one, Decisions):
        return decisive(random, noisy_one, count) / z
    d = noisy_one.sums.size
    sums = np.broadcast_to(noisy_one.sums, (-(-count // d), d)).copy()
    found = noisy(random, sums, noisy_one.sensitivity, z)
    with np.errstate(all="ignore"):
        noise = (found - sums) / (noisy_one.sensitivity * z)
        return (noise - _clamped(noise)).ravel()


def _clamped(noise: Floats) -> Floats:
    """Return the shift of entries whose sum is more cells than noise is added to: they are held.

    That is done to the sum before its noise, so that it tells nothing of rows; noise is measured
    around it.
    """
    shift = np.median(noise, axis=0)
    return np.where(np.abs(shift) > FAR_OFF, shift, 0.0)


def faults_of(noise: Floats) -> list[str]:
    """Return what is wrong with draws that are claimed to be standard normal."""
    if not np.isfinite(noise).all():
        return ["the noise is not finite"]
    n, found = noise.size, []
    spread = float(noise.std())
    if abs(spread - 1.0) > LIMIT + SURE * (0.5 / n) ** 0.5:
        found.append(f"its sd is {spread:.6g} of the claim")
    if abs(noise.mean()) > SURE * n**-0.5:
        found.append(f"its mean is {noise.mean():.3g} sds")
    if np.mean(noise == 0.0) > AT_ZERO:
        found.append(f"{np.mean(noise == 0.0):.3g} of the draws are exactly 0")
    for far, share in ((1.0, 0.31731), (2.0, 0.045500), (3.0, 0.0026998)):
        seen = float(np.mean(np.abs(noise) > far))
        if abs(seen - share) > SURE * (share / n) ** 0.5:
            found.append(f"{seen:.4g} of the draws lie beyond {far:g} sds, not {share:g}")
    kurtosis = float(np.mean(noise**4)) / max(spread, 1e-300) ** 4
    if abs(kurtosis - 3.0) > SURE * (24.0 / n) ** 0.5:
        found.append(f"its kurtosis is {kurtosis:.4g}")
    return found


def measured(release: Noisy) -> list[str]:
    """Return what is wrong with the noise of a release: a look, and a closer one if it must be."""
    random = SystemRandom()
    noise = normalised(release, FEW, random)
    if not faults_of(noise) and abs(noise.std() - 1.0) <= LOOK:
        return []
    noise = normalised(release, MANY, random)
    found = faults_of(noise)
    if not found and abs(noise.std() - 1.0) > LIMIT:
        found.append(f"its sd is {noise.std():.6g} of the claim")
    return found


def of_plan(planned: Plan) -> list[Finding]:
    """Check what a plan promises: that it costs something, and each multiplier of its event."""
    found = []
    if not planned.cost.epsilon > 0.0:
        found.append(Finding("costs nothing", f"epsilon {planned.cost.epsilon:g} is charged"))
    parts = leaves(planned.event) or {}
    bases = {leaf.event if isinstance(leaf, WithoutReplacement) else leaf for leaf in parts}
    multipliers = {one.noise_multiplier for one in bases if isinstance(one, Gaussian)}
    for z in {min(multipliers), max(multipliers)} if multipliers else ():
        try:
            wrong = measured(Release(np.zeros(1), 1.0, z))
        except ValueError as error:
            found.append(Finding("refused after payment", f"multiplier {z:.6g}: {error}"))
            continue
        if wrong:
            what = "; ".join(wrong)
            found.append(Finding("noise", f"multiplier {z:.6g} is charged for: {what}"))
    return found


def runnable(request: Request, planned: Plan) -> bool:
    """Whether a few steps of it take a moment."""
    options = planned.spec.sampler
    return request.rows <= RUN_ROWS and getattr(options, "num_leapfrog", 1) <= RUN_SCORES


def of_run(request: Request, planned: Plan, choose: np.random.Generator) -> list[Finding]:
    """Run a few steps on adversarial rows. Check the noise of all that left, and what it cost."""
    schema, spec = request.schema(), shortened(planned.spec, RUN_STEPS)
    table = corners(schema, choose)
    try:
        with recording() as record:
            draws = draws_of(schema, spec, table)
    except Exception as error:  # a run may raise on nothing
        return [Finding("raised in a run", f"{type(error).__name__}: {error}")]
    found = [] if np.isfinite(draws).all() else [Finding("draws", "are not finite")]
    some = choose.permutation(len(record.releases))[:RUN_RELEASES]
    for one in [*(record.releases[k] for k in some), *record.decisions[:1]]:
        wrong = measured(one)
        if wrong:
            what = "; ".join(wrong)
            found.append(Finding("noise", f"released at {one.noise_multiplier:.6g}: {what}"))
    found += of_costs(schema, spec, record)
    row = {column.name: int(choose.integers(0, 2)) for column in schema.columns}
    return found + of_sensitivity(schema, spec, record, table, replaced(table, schema, row))


def of_costs(schema: Schema, spec: JobSpec, record: Record) -> list[Finding]:
    """Compare what a run did with the event that was paid for."""
    paid = leaves(event_of(schema, spec)) or {}
    spent = sum(d.count * d.noise_multiplier**-2 for d in record.draws if not d.subsampled)
    limit = sum(
        many * gdp_mu(leaf) ** 2 for leaf, many in paid.items() if isinstance(leaf, Gaussian)
    )
    found = []
    if spent > limit * ROUNDED:
        found.append(Finding("cost", f"mu^2 of {limit:.6g} is paid for {spent:.6g}"))
    batches = [d for d in record.draws if d.subsampled]
    bases = {
        leaf.event: many for leaf, many in paid.items() if isinstance(leaf, WithoutReplacement)
    }
    if sum(d.count for d in batches) > sum(bases.values()):
        found.append(Finding("cost", "more batches are read than are paid for"))
    if any(Gaussian(d.noise_multiplier) not in bases for d in batches):
        found.append(Finding("cost", "a batch has other noise than is paid for"))
    return found


def of_sensitivity(schema, spec, record, table, other) -> list[Finding]:  # type: ignore[no-untyped-def]
    """Ask what a run asked of two neighbouring tables: answers differ by their sensitivity."""
    if not record.queries:
        return []
    release = RELEASES.get(spec.sampler.algorithm)
    if release is not None:
        spec = replace(spec, model=release.model(spec.model))
    design, model = make_design(schema, spec.model.formula), MODELS[spec.model.family]
    chains = 1 if release is not None else spec.sampler.num_chains or 1
    opened = [model.target(design, spec, rows, chains) for rows in (table, other)]
    found = []
    with np.errstate(all="ignore"):
        for (name, one, allowed), (_, two, _) in zip(
            *(answers(target, record) for target in opened), strict=True
        ):
            apart = np.linalg.norm(one - two, axis=1)
            if not (apart <= allowed * ROUNDED).all():
                worst = float(np.max(apart / allowed))
                found.append(Finding("sensitivity", f"{name}: rows move it {worst:.6g} times that"))
    return found


def all_rows(schema: Schema) -> list[dict[str, int]]:
    """Return every row at the corners of the declared bounds, of every category."""
    names = [column.name for column in schema.columns]
    ends = [range(len(getattr(column, "categories", (0, 1)))) for column in schema.columns]
    return [dict(zip(names, sides, strict=True)) for sides in product(*ends)]
