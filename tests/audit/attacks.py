"""Distinguishers: what says of released draws which of two neighbouring datasets they came from.

Each is a score of a trial, learned from trials of a training half or written down from the known
mechanism. All see what an analyst sees, the draws, and know everything that is public.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dpmcmc.families import MODELS
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import Schema, Table
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.samplers.penalty_efficiency import BACTRIAN_MODE

Floats = NDArray[np.float64]
Score = Callable[[Floats], Floats]
"""(trial, draw, d) released draws -> (trial,), larger for the second dataset."""
MOST_FEATURES, BINS = 24, 40
NODES, PLACES = 64, 400


def start_of(schema: Schema, spec: JobSpec) -> Floats:
    """Return the public point (d,) at which chains without a start begin."""
    design, model = make_design(schema, spec.model.formula), MODELS[spec.model.family]
    form = model.form(design, spec)
    return np.asarray(model.release(design, spec, np.array(form.start)[None])[0])


def chain_features(start: Floats) -> Callable[[Floats], Floats]:
    """Return (trial, draw, d) -> features: the steps, and which of them moved."""

    def features(draws: Floats) -> Floats:
        first = np.broadcast_to(start, (len(draws), 1, draws.shape[2]))
        steps = np.diff(np.concatenate((first, draws), axis=1), axis=1)
        moved = (steps != 0.0).any(axis=2)
        flat = steps.reshape(len(draws), -1)[:, :MOST_FEATURES]
        lengths = np.sqrt((steps**2).sum(axis=2))[:, :MOST_FEATURES]
        return np.concatenate((flat, lengths, moved[:, :MOST_FEATURES]), axis=1)

    return features


def release_features(draws: Floats) -> Floats:
    """Return (trial, features): means and log sds, nearly what was released."""
    means, sds = draws.mean(axis=1), draws.std(axis=1)
    return np.concatenate((means, np.log(np.maximum(sds, 1e-300))), axis=1)


@dataclass(frozen=True)
class Odds:
    """Log-odds of a number, counted in cells. What is exactly 0 has a cell of its own."""

    edges: Floats
    odds: Floats

    def __call__(self, x: Floats) -> Floats:
        return np.asarray(self.odds[_cell(x, self.edges)])


def _cell(x: Floats, edges: Floats) -> NDArray[np.int64]:
    return np.where(x == 0.0, 0, 1 + np.searchsorted(edges, x, side="right"))


def counted(zeros: Floats, ones: Floats) -> Odds:
    """Learn the log-odds of a number."""
    both = np.concatenate((zeros, ones))
    other = both[both != 0.0]
    edges = (
        np.unique(np.quantile(other, np.linspace(0, 1, BINS + 1))) if other.size else np.zeros(1)
    )
    size = len(edges) + 2
    zero, one = (np.bincount(_cell(x, edges), minlength=size) + 0.5 for x in (zeros, ones))
    return Odds(edges, np.log(one / one.sum()) - np.log(zero / zero.sum()))


def learned(zeros: Floats, ones: Floats) -> dict[str, Score]:
    """Return scores of features (trial, feature): single ones, all as if independent, a plane."""
    found: dict[str, Score] = {}
    each = [counted(zeros[:, k], ones[:, k]) for k in range(zeros.shape[1])]
    for k, odds in enumerate(each):
        found[f"number {k}, log-odds"] = lambda f, k=k, odds=odds: odds(f[:, k])
        for sign in (1.0, -1.0):
            found[f"number {k} times {sign:g}"] = lambda f, k=k, sign=sign: sign * f[:, k]
    found["all log-odds"] = lambda f: sum(odds(f[:, k]) for k, odds in enumerate(each))
    scale = np.concatenate((zeros, ones)).std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    spread = np.cov(zeros / scale, rowvar=False) + np.cov(ones / scale, rowvar=False)
    spread = np.atleast_2d(spread) + 1e-9 * np.eye(len(scale))
    way = np.linalg.lstsq(spread, (ones.mean(axis=0) - zeros.mean(axis=0)) / scale, rcond=None)[0]
    found["discriminant"] = lambda f: (f / scale) @ way
    plane = counted((zeros / scale) @ way, (ones / scale) @ way)
    found["discriminant, log-odds"] = lambda f: plane((f / scale) @ way)
    return found


def penalty_odds(schema: Schema, spec: JobSpec, tables: tuple[Table, Table]) -> Score:
    """Return the sum over steps of the log-odds of each decision, from the known mechanism.

    Of a penalty walk in one dimension. A move that is accepted is seen, with its probability under
    both datasets; one that is rejected is not, so that all moves count that might have been.
    """
    moves, weights = _moves(spec)
    origin, unit = _affine(schema, spec)
    start = (start_of(schema, spec) - origin) / unit

    def odds(draws: Floats) -> Floats:
        draws = (draws - origin) / unit
        first = np.broadcast_to(start, (len(draws), 1, 1))
        here = np.concatenate((first, draws[:, :-1]), axis=1)[:, :, 0].ravel()
        there = draws[:, :, 0].ravel()
        stayed = here == there
        places = np.linspace(here.min(), here.max() + 1e-9, PLACES)
        found = np.zeros(len(here))
        for sign, table in zip((-1.0, 1.0), tables, strict=True):
            tried = np.array(
                [
                    _log_accepted(schema, spec, table, places, np.full(PLACES, move))
                    for move in moves
                ]
            )
            refused = np.log1p(-np.minimum(weights @ np.exp(tried), 1.0 - 1e-12))
            found += sign * np.where(stayed, np.interp(here, places, refused), 0.0)
            far = _log_accepted(schema, spec, table, here[~stayed], (there - here)[~stayed])
            found[~stayed] += sign * far
        return found.reshape(len(draws), -1).sum(axis=1)

    return odds


def _affine(schema: Schema, spec: JobSpec) -> tuple[Floats, Floats]:
    """Return (origin, unit), released = origin + unit * position, of one coefficient."""
    design, model = make_design(schema, spec.model.formula), MODELS[spec.model.family]
    ends = np.asarray(model.release(design, spec, np.array([[0.0], [1.0]])))
    return ends[0], ends[1] - ends[0]


def _moves(spec: JobSpec) -> tuple[Floats, Floats]:
    """Return moves of one coefficient, and weights that add up averages over the proposal."""
    proposal: Any = getattr(spec.sampler, "proposal")  # noqa: B009 - options differ in type
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    if proposal.shape == "bactrian":
        narrow = (1.0 - BACTRIAN_MODE**2) ** 0.5 * nodes
        nodes = np.concatenate((narrow - BACTRIAN_MODE, narrow + BACTRIAN_MODE))
        weights = np.concatenate((weights, weights))
    return (proposal.scale or 0.0) * nodes, weights / weights.sum()


def _log_accepted(
    schema: Schema, spec: JobSpec, table: Table, here: Floats, delta: Floats
) -> Floats:
    """Return log probabilities (m,) that moves from here are accepted."""
    design, model = make_design(schema, spec.model.formula), MODELS[spec.model.family]
    target = model.target(design, spec, table, len(here))
    target.position[:] = here[:, None]
    target.refresh()
    sums, sensitivities, priors = target.vector_ratios(delta[:, None])
    s = (spec.privacy.noise_multiplier or 0.0) * sensitivities
    seen = sums + priors
    sure = log_ndtr((seen - 0.5 * s * s) / s)
    rest = seen + log_ndtr(-(seen + 0.5 * s * s) / s)
    return np.minimum(np.logaddexp(sure, rest), 0.0)
