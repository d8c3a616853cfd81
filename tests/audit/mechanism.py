"""What the audit knows of the inside: where noise is added, and how a model is asked for sums.

All the other files of this package see requests, plans, draws and the records made here, so that a
change of how noise is drawn changes this file alone.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from dpmcmc.families.rowwise import RowTarget
from dpmcmc.kernels.arithmetic import rounding
from dpmcmc.kernels.arithmetic.rules import BARKER
from dpmcmc.privacy import discrete
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import NOISY_MEAN, PENALTY_DECISION
from dpmcmc.samplers.dp_barker import widest_room

Floats = NDArray[np.float64]


def noisy(
    random: RandomSource, sums: Floats, sensitivity: float, noise_multiplier: float
) -> Floats:
    """Return sums (..., d) as they would be released. Raises ValueError where that is refused."""
    noise = discrete.gaussian_noise(random, NOISY_MEAN, noise_multiplier, sums.shape)
    return discrete.noisy_sums(sums, sensitivity, noise_multiplier, noise)


def decisive(random: RandomSource, decisions: "Decisions", count: int) -> Floats:
    """Return the noise of decisions, for a sensitivity of 1. Raises ValueError where refused."""
    noise = discrete.gaussian_noise(random, PENALTY_DECISION, decisions.noise_multiplier, (count,))
    return np.asarray(rounding.noised(np.zeros(count), decisions.unit, noise))


@dataclass
class Release:
    """One vector that was released. sums: (d,) before noise."""

    sums: Floats
    sensitivity: float
    noise_multiplier: float


@dataclass
class Decisions:
    """Accept or reject decisions. unit: a cell of their noise, over the sensitivity of a ratio."""

    noise_multiplier: float
    unit: float


@dataclass
class Draw:
    """Noise that was drawn: for how many events, all at this multiplier, and of which site."""

    count: int
    noise_multiplier: float
    subsampled: bool


@dataclass
class Record:
    """What a run asked of its rows, in order, and with what noise the answers left."""

    queries: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    decisions: list[Decisions] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)


def _gaussian_noise(record: Record, real: Callable[..., Any]) -> Callable[..., Any]:
    def heard(random: Any, site: Any, noise_multiplier: float, shape: tuple[int, ...]) -> Any:
        each = shape if "each step and chain" in site.event else shape[:-1]
        subsampled = "WithoutReplacement" in site.event
        record.draws.append(Draw(int(np.prod(each)), noise_multiplier, subsampled))
        return real(random, site, noise_multiplier, shape)

    return heard


def _noisy_sums(record: Record, real: Callable[..., Any]) -> Callable[..., Any]:
    def heard(sums: Floats, sensitivity: float, noise_multiplier: float, *rest: Any) -> Any:
        for one in np.reshape(sums, (-1, np.shape(sums)[-1])):
            record.releases.append(Release(one.copy(), sensitivity, noise_multiplier))
        return real(sums, sensitivity, noise_multiplier, *rest)

    return heard


def _method(record: Record, name: str) -> Callable[..., Any]:
    real = getattr(RowTarget, name)

    def heard(self: Any, *given: Any, **named: Any) -> Any:
        note(record, name, self, given)
        return real(self, *given, **named)

    return heard


def note(record: Record, name: str, target: Any, given: tuple[Any, ...]) -> None:
    """Write down a question to the rows."""
    if name in ("gradient", "use_coordinates", "narrow_clip"):
        record.queries.append((name, given))
    elif name == "batch_walk":
        rule, z = given[0], record.draws[-1].noise_multiplier
        unit = rule.unit
        if rule.kind == BARKER:  # its unit is absolute: the noise is as large as the room says
            unit *= z / widest_room(z, rule.batch, target.rows).fixed ** 0.5
        record.decisions.append(Decisions(z, unit))
    elif name == "penalty_walk":
        steps = given[0]
        record.decisions.append(Decisions(record.draws[-1].noise_multiplier, steps.scale.unit))
        record.queries.append(("ratios", (target.position.copy(), steps.deltas[0].copy())))
    elif name == "hamiltonian_walk":
        _note_trajectories(record, target, *given[:2])


def _note_trajectories(record: Record, target: Any, path: Any, steps: Any) -> None:
    record.decisions.append(Decisions(record.draws[-1].noise_multiplier, steps.scale.unit))
    position = target.position.copy()
    record.queries.append(("ratios", (position, steps.momenta[0] @ path.root.T)))
    sensitivity = target.gradient(position, path.clip)[1]  # heard, and so asked again
    one = Release(np.zeros(position.shape[1]), sensitivity, path.noise_multiplier)
    record.releases.append(one)


METHODS = (
    *("gradient", "use_coordinates", "narrow_clip"),
    *("penalty_walk", "hamiltonian_walk", "batch_walk"),
)


@contextmanager
def recording() -> Iterator[Record]:
    """Everything that is asked of rows, and released, meanwhile. It changes no noise."""
    record = Record()
    wrapped = {"noisy_sums": _noisy_sums, "gaussian_noise": _gaussian_noise}
    with ExitStack() as stack:
        for name in METHODS:
            stack.enter_context(mock.patch.object(RowTarget, name, _method(record, name)))
        for name, wrap in wrapped.items():
            real = getattr(discrete, name)
            heard = wrap(record, real)
            for user in [m for n, m in list(sys.modules.items()) if n.startswith("dpmcmc.") and m]:
                if getattr(user, name, None) is real:
                    stack.enter_context(mock.patch.object(user, name, heard))
        yield record


def answers(target: Any, record: Record) -> Iterator[tuple[str, Floats, Floats]]:
    """Ask recorded questions of a fresh target: (name, sums (chain, ...), sensitivities)."""
    for name, given in record.queries:
        if name in ("use_coordinates", "narrow_clip"):
            getattr(target, name)(*given)
        elif name == "ratios":
            position, delta = given
            target.position[:] = position
            target.refresh()
            sums, sensitivities, _ = target.vector_ratios(delta)
            yield name, sums[:, None], sensitivities
        else:
            sums, sensitivity = getattr(target, name)(*given)
            yield name, np.reshape(sums, (len(sums), -1)), np.full(len(sums), sensitivity)


def replace(
    monkeypatch: Any, name: str, other: Callable[..., Any], *, inside: bool = False
) -> None:
    """Put something else in the place of a function of privacy/discrete.py, for a test.

    inside: whether discrete.py itself keeps the real one.
    """
    real = getattr(discrete, name)
    for user in [m for n, m in list(sys.modules.items()) if n.startswith("dpmcmc.") and m]:
        if getattr(user, name, None) is real and not (inside and user is discrete):
            monkeypatch.setattr(user, name, other)
