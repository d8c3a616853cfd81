"""Summaries and mixing diagnostics of released draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpmcmc.base.loading import loaded
from dpmcmc.base.private import Released

FEWEST_DRAWS = 8  # draws of a chain, fewer than which have no R-hat
SEVERAL_DRAWS = 16  # of a chain, for four draws in each quarter
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
Draws = NDArray[np.float64]
Diagnostics = tuple[float | None, float | None, float | None]
NO_DIAGNOSTICS: Diagnostics = (None, None, None)


@dataclass(frozen=True, slots=True)
class ParameterSummary:
    """Summary of one parameter's draws. A diagnostic is None for too few or constant draws.

    r_hat: rank-normalised split R-hat, of the two halves where there is one chain; ess_bulk,
    ess_tail as ArviZ defines them (Vehtari et al. 2021). They measure mixing, not bias.
    """

    name: str
    mean: float
    sd: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float
    r_hat: float | None
    ess_bulk: float | None
    ess_tail: float | None


def summarise(
    draws: Released[Draws],
    parameters: Sequence[str],
    *,
    mixing: bool = True,
    rescaled: tuple[Draws, Sequence[ParameterSummary]] | None = None,
) -> list[ParameterSummary]:
    """Summarise draws (chain, draw, parameter), without their warm-up. One item per parameter.

    mixing: whether to compute R-hat and effective sizes; they are None otherwise. rescaled: the
    same draws in other units, and their summaries: a parameter that differs by a positive factor
    alone has the same R-hat and effective sizes. Raises ValueError where the shapes differ or there
    is no draw.
    """
    values = draws.value
    if values.ndim != 3 or values.shape[2] != len(parameters) or values.shape[1] < 1:
        raise ValueError("draws must be (chain, draw, parameter) with at least one draw")
    summaries = []
    for k, name in enumerate(parameters):
        each, diagnostics = values[:, :, k], NO_DIAGNOSTICS
        if rescaled is not None and _is_multiple(each, rescaled[0][:, :, k]):
            known = rescaled[1][k]
            diagnostics = known.r_hat, known.ess_bulk, known.ess_tail
        elif mixing:
            diagnostics = _mixing(each)
        summaries.append(_summary(name, each, diagnostics))
    return summaries


def _is_multiple(draws: Draws, others: Draws) -> bool:
    """Return whether draws are others times a positive number, but for rounding."""
    largest = np.unravel_index(np.argmax(np.abs(others)), others.shape)
    with np.errstate(all="ignore"):
        factor = draws[largest] / others[largest]
        return bool(factor > 0.0 and np.allclose(draws, factor * others, rtol=1e-12, atol=0.0))


def _summary(name: str, draws: Draws, diagnostics: Diagnostics) -> ParameterSummary:
    """Return the summary of one parameter's draws (chain, draw)."""
    q05, q25, q50, q75, q95 = (float(q) for q in np.quantile(draws, QUANTILES))
    r_hat, bulk, tail = diagnostics
    return ParameterSummary(
        name=name,
        mean=float(draws.mean()),
        sd=float(draws.std(ddof=1)) if draws.size > 1 else 0.0,
        q05=q05,
        q25=q25,
        q50=q50,
        q75=q75,
        q95=q95,
        r_hat=r_hat,
        ess_bulk=bulk,
        ess_tail=tail,
    )


@np.errstate(all="ignore")  # parts of a chain that never moved have no variance to divide by
def _mixing(draws: Draws) -> Diagnostics:
    """Return R-hat, bulk and tail ESS of (chain, draw), as ArviZ does in twice the time.

    It ranks the draws anew for each of them.
    """
    if draws.shape[1] < FEWEST_DRAWS or bool((np.ptp(draws, axis=1) == 0.0).all()):
        return NO_DIAGNOSTICS
    array_stats, axes = loaded("arviz_stats.base").array_stats, {"chain_axis": 0, "draw_axis": 1}
    chains = _two_chains(draws)
    if draws.shape[1] < SEVERAL_DRAWS:
        r_hat = array_stats.rhat(chains, **axes)
        bulk = array_stats.ess(draws, method="bulk", **axes)
    else:
        split = _halves(chains)
        scores, folded = _normal_scores(split), _normal_scores(abs(split - np.median(split)))
        r_hat = max(array_stats.rhat(each, method="identity", **axes) for each in (scores, folded))
        own = scores if chains is draws else _normal_scores(_halves(draws))
        bulk = array_stats.ess(own, method="identity", **axes)
    tail = array_stats.ess(draws, method="tail", prob=(0.05, 0.95), **axes)
    return _finite(r_hat), _finite(bulk), _finite(tail)


def _two_chains(draws: Draws) -> Draws:
    """Return one chain as its two halves, since R-hat compares chains."""
    half = draws.shape[1] // 2
    return draws[:, -2 * half :].reshape(2, half) if draws.shape[0] == 1 else draws


def _halves(draws: Draws) -> Draws:
    """Return the first and the last half of each chain as a chain."""
    half = draws.shape[1] // 2
    return np.vstack((draws[:, :half], draws[:, -half:]))


def _normal_scores(draws: Draws) -> Draws:
    """Return the normal quantiles of the draws' ranks among all of them; ties share a rank."""
    every = draws.ravel()
    order = np.argsort(every)
    ranked = every[order]
    if (ranked[1:] == ranked[:-1]).any():
        return _quantiles_of_ranks(loaded("scipy.stats").rankdata(every), every.size).reshape(
            draws.shape
        )
    scores = np.empty(every.size)
    scores[order] = _scores_in_order(every.size)
    return scores.reshape(draws.shape)


@lru_cache(maxsize=4)
def _scores_in_order(count: int) -> Draws:
    """Return the normal quantiles of the ranks 1 to count."""
    scores = _quantiles_of_ranks(np.arange(1.0, count + 1.0), count)
    scores.flags.writeable = False
    return scores


def _quantiles_of_ranks(ranks: Draws, count: int) -> Draws:
    """Return the normal quantiles of ranks among so many, by the formula that ArviZ has."""
    return np.asarray(ndtri((ranks - 0.375) / (count + 0.25)))


def _finite(value: object) -> float | None:
    """Return a number as a float; None where it is not finite."""
    number = float(np.asarray(value))
    return number if np.isfinite(number) else None
