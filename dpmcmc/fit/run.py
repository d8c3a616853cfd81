"""A planned job on private rows: opens them, and yields released draws block by block."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.base.floating import own_errors
from dpmcmc.base.private import Permit, PermitError, Private, Released
from dpmcmc.families import MODELS
from dpmcmc.formula.design import Design, make_design
from dpmcmc.inputs.blocks import one_blas_thread
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.planner import event, noise_event
from dpmcmc.planner.resolve import unit_rows_of
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.privacy.drawn import Metered
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Event, of_units
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.releases import RELEASES
from dpmcmc.releases.base import Stored, columns_read
from dpmcmc.releases.reuse import POINTER, checked
from dpmcmc.releases.whitening import Whitening
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.minibatch import SCATTERED_READ_COST
from dpmcmc.samplers.starting import begun

MAX_BLOCKS = 25
ONE_BLOCK_NUMBERS = 2**18  # numbers of a release's draws, which take no time, that are one block
BLOCK_SECONDS, LEAST_SECONDS = 0.5, 0.1
ROW_SECONDS = 4e-9  # one row of one chain, one column, on a slow core
STEP_SECONDS = 1e-4


class Run(Iterator[Released[NDArray[np.float64]]]):
    """A running job: an iterator over its blocks of draws."""

    def __init__(
        self,
        schema: Schema,
        spec: JobSpec,
        source: AnyRows,
        random: RandomSource,
        white: Whitening | None,
    ) -> None:
        """Hold a job that `run` has checked to be paid for."""
        self._kept: list[Stored] = []
        release = RELEASES.get(spec.sampler.algorithm)
        self._meter = None
        self._unit_rows = unit_rows_of(schema, spec)
        if release is not None and release.stops:
            random = self._meter = Metered(random, noise_event(schema, spec))
        self._blocks = _blocks(schema, spec, source, random, self._kept.append, white)
        self._process = os.getpid()

    @own_errors
    def __next__(self) -> Released[NDArray[np.float64]]:
        """Return the next block of draws."""
        from dpmcmc.kernels.subnormals import flushed

        if os.getpid() != self._process:  # a fork's noise differs, of the same payment
            raise PermitError("this run began in another process, which goes on with it")
        with flushed():
            return next(self._blocks)

    @property
    def stored(self) -> Stored | None:
        """The stored release, once a block is out; None without a release."""
        return self._kept[-1] if self._kept else None

    @property
    def drawn(self) -> Event | None:
        """The part of the job's event drawn by a release that stopped early; None if complete."""
        meter, stored = self._meter, self.stored
        ended = getattr(stored, "stopped", "") or getattr(stored, "rounds", 0)
        if meter is None or meter.drawn is None or meter.complete or not ended:
            return None
        return of_units(meter.drawn, self._unit_rows)


def run(
    schema: Schema,
    spec: JobSpec,
    rows: Private[AnyRows],
    permit: Permit,
    *,
    random: RandomSource | None = None,
    whitening: Whitening | None = None,
) -> Run:
    """Return the draws of a resolved job in blocks (chain, block, parameter), warm-up included.

    Chains start at draws given a release that the job pays for, or at a public point, see the
    model's form; the first draw is the position after the first step.

    Privacy: event(schema, spec), paid for by `permit`.

    Parameters
    ----------
    schema
        Declared columns and number of rows.
    spec
        A job with every option filled in: `plan(schema, spec).spec`.
    rows
        The rows, which only the permit opens. Those that lie elsewhere are read once for a pass.
    permit
        Proof that the event of this very job is paid for; it opens the rows once.
    random
        For tests only; secure by default.
    whitening
        The whitening that the job uses again, for the columns of its own design.

    Returns
    -------
    Run
        An iterator over blocks of draws. Their lengths follow from public facts.

    Raises
    ------
    PermitError
        If the permit is for another event or dataset, before the rows are opened.
    SpecError
        If the job is not resolved, or its whitening is not given. Never on account of the rows.

    Examples
    --------
    >>> planned = plan(schema, spec)
    >>> for block in run(schema, planned.spec, rows, permit):
    ...     print(block.draws.shape)
    """
    schema = spec.privacy.schema(schema)
    if permit.event_digest != digest(event(schema, spec)):
        raise PermitError("the permit was made for another event")
    if getattr(spec.sampler, "paid", False):
        if whitening is None:
            raise SpecError(
                POINTER,
                "names a whitening, which must be given: whitening=...",
            )
        checked(whitening, len(make_design(schema, spec.model.formula).parameters))
    else:
        whitening = None  # the job pays for its own
    source = rows.open(permit).within(schema)
    return Run(schema, spec, source, random or SystemRandom(), whitening)


def _blocks(
    schema: Schema,
    spec: JobSpec,
    source: AnyRows,
    random: RandomSource,
    keep: Callable[[Stored], None],
    white: Whitening | None,
) -> Iterator[Released[NDArray[np.float64]]]:
    """Yield the blocks of a chain, or of a release."""
    design = make_design(schema, spec.model.formula)
    if spec.sampler.algorithm in RELEASES:
        released = _released(design, spec, source, random, keep, white)
        del source  # the rows are given up once they are used
        yield from released
        return
    table = source.whole(columns_read(design, spec.model))
    del source
    sampler, options = SAMPLERS[spec.sampler.algorithm], spec.sampler
    if options.num_steps is None or options.num_chains is None:
        raise SpecError("/sampler", "is not resolved")
    model, release = MODELS[spec.model.family], None
    start = begun(design, spec, table, random)
    if start is not None:
        keep(start[0])
        release = start[1]
    target = model.target(design, spec, table, options.num_chains)
    del table  # the target has its own, in the kernels' order
    z = spec.privacy.noise_multiplier or 0.0
    state = sampler.init(target, options, z, random, release)
    left = options.num_steps
    read = rows_read(options, schema.rows)
    length = block_length(read, target.position.shape[1], options.num_chains, left)
    while left > 0:
        size = min(length, left)
        draws = sampler.step(target, options, z, size, random, state)
        yield Released(model.release(design, spec, draws))
        left -= size


def _released(
    design: Design,
    spec: JobSpec,
    source: AnyRows,
    random: RandomSource,
    keep: Callable[[Stored], None],
    white: Whitening | None,
) -> Iterator[Released[NDArray[np.float64]]]:
    """Yield independent draws from the posterior given one release of the rows."""
    release, options, original = RELEASES[spec.sampler.algorithm], spec.sampler, spec
    spec = replace(spec, model=release.model(spec.model))
    model, steps, chains = MODELS[spec.model.family], options.num_steps, options.num_chains
    if steps is None or chains is None:
        raise SpecError("/sampler", "is not resolved")
    if release.opened is not None:
        opened = source if release.streams else source.whole(columns_read(design, spec.model))
        rows = release.opened(design, spec, opened)
        del opened
    else:
        rows = model.target(design, spec, source.whole(columns_read(design, spec.model)), 1)
    del source
    if white is not None:
        rows = replace(rows, white=white)
    z, form = spec.privacy.noise_multiplier or 0.0, model.form(design, spec)
    with one_blas_thread(len(form.start)):
        if release.in_rounds is not None and (getattr(options, "rounds", None) or 1) > 1:
            rounds = release.in_rounds(rows, form.max_row_norm, options, z, random)
            posterior = _until_reliable(design.schema, original, rounds).own_posterior(random)
        else:
            posterior = release.publish(rows, form.max_row_norm, options, z, random)
    del rows  # no key and no row of them is needed for what follows from released numbers
    if posterior.release is not None:
        keep(posterior.release)
    length = max(-(-steps // MAX_BLOCKS), ONE_BLOCK_NUMBERS // (chains * len(form.start)))
    for first in range(0, steps, length):
        with one_blas_thread(len(form.start)):
            draws = posterior.draws(chains, min(length, steps - first), random)
        yield Released(model.release(design, spec, draws))


def _until_reliable(schema: Schema, spec: JobSpec, rounds: Iterator[Stored]) -> StoredRelease:
    """Run rounds until the release is reliable or hopeless. Returns the last one.

    Whether the next round is drawn is decided by what the rounds before have released alone. A job
    that is to spend all draws all of them.
    """
    release = None
    for stored in rounds:
        release = StoredRelease(schema, spec, stored)
        ends, kept = (False, stored) if spec.spend == "all" else release.after_round()
        if ends:
            return StoredRelease(schema, spec, kept)
    if release is None:
        raise SpecError("/sampler/rounds", "is not resolved")
    return release


def rows_read(options: object, rows: int) -> int:
    """Return the number of sequential rows that take as long as one step of a chain."""
    batch = getattr(options, "batch", None)
    return rows if batch is None else min(rows, int(SCATTERED_READ_COST * batch))


def block_length(rows: int, dimension: int, chains: int, steps: int) -> int:
    """Return the steps of a block: at most MAX_BLOCKS blocks, none very short or long.

    rows: that each chain reads a step.
    """
    seconds = STEP_SECONDS + chains * rows * (1 + dimension) * ROW_SECONDS
    even = max(-(-steps // MAX_BLOCKS), int(LEAST_SECONDS / seconds))
    return max(1, min(even, int(BLOCK_SECONDS / seconds), steps))
