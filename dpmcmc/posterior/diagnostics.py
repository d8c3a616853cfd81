"""Summaries and mixing diagnostics of released draws."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.loading import loaded
from dpmcmc.base.private import Released

FEWEST_DRAWS = 8  # draws of a chain, fewer than which have no R-hat
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


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
    draws: Released[NDArray[np.float64]], parameters: Sequence[str], *, mixing: bool = True
) -> list[ParameterSummary]:
    """Summarise draws (chain, draw, parameter), without their warm-up. One item per parameter.

    mixing: whether to compute R-hat and effective sizes; they are None otherwise. Raises ValueError
    where the shapes differ or there is no draw.
    """
    values = draws.value
    if values.ndim != 3 or values.shape[2] != len(parameters) or values.shape[1] < 1:
        raise ValueError("draws must be (chain, draw, parameter) with at least one draw")
    return [_summary(name, values[:, :, k], mixing) for k, name in enumerate(parameters)]


def _summary(name: str, draws: NDArray[np.float64], mixing: bool) -> ParameterSummary:
    """Return the summary of one parameter's draws (chain, draw)."""
    q05, q25, q50, q75, q95 = (float(q) for q in np.quantile(draws, QUANTILES))
    r_hat, bulk, tail = _mixing(draws) if mixing else (None, None, None)
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
def _mixing(draws: NDArray[np.float64]) -> tuple[float | None, float | None, float | None]:
    """Return R-hat, bulk and tail ESS of (chain, draw)."""
    if draws.shape[1] < FEWEST_DRAWS or bool((np.ptp(draws, axis=1) == 0.0).all()):
        return None, None, None
    array_stats = loaded("arviz_stats.base").array_stats

    return (
        _finite(array_stats.rhat(_two_chains(draws), chain_axis=0, draw_axis=1)),
        _finite(array_stats.ess(draws, chain_axis=0, draw_axis=1, method="bulk")),
        _finite(
            array_stats.ess(draws, chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95))
        ),
    )


def _two_chains(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one chain as its two halves, since R-hat compares chains."""
    half = draws.shape[1] // 2
    return draws[:, -2 * half :].reshape(2, half) if draws.shape[0] == 1 else draws


def _finite(value: object) -> float | None:
    """Return a number as a float; None where it is not finite."""
    number = float(np.asarray(value))
    return number if np.isfinite(number) else None
