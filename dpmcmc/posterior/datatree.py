"""Draws as one ArviZ DataTree, the same from the library, the service and its netCDF files."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.loading import loaded
from dpmcmc.base.names import DRAW_COLUMNS, distinct

if TYPE_CHECKING:
    import xarray


def columns(parameters: Sequence[str]) -> list[str]:
    """Return parameters' names in files: distinct, without a slash, which begins a group there."""
    plain = [name.replace("/", "|").replace("\0", "|") for name in parameters]
    plain = [f"{name}_" if name in (".", "..") else name for name in plain]
    return list(distinct([*DRAW_COLUMNS, *plain])[len(DRAW_COLUMNS) :])


def data_tree(
    draws: NDArray[np.float64],
    parameters: Sequence[str],
    num_warmup: int,
    attributes: Mapping[str, str | float],
) -> "xarray.DataTree":
    """Return draws (chain, draw, parameter), warm-up included, as a tree that ArviZ reads.

    posterior: the draws after the warm-up, a variable for each parameter, dims chain, draw.
    sample_stats: `accepted`, whether a draw differs from the one before it (of a chain's first draw
    1), which anybody sees from the draws. warmup_posterior, warmup_sample_stats: the same of the
    warm-up, where there is one. attributes: of the tree and of its posterior.
    """
    dataset = loaded("xarray").Dataset
    names = columns(parameters)
    moved = np.ones(draws.shape[:2], np.int8)
    moved[:, 1:] = (np.diff(draws, axis=1) != 0.0).any(axis=2)
    groups = {}
    for prefix, part in (("", slice(num_warmup, None)), ("warmup_", slice(0, num_warmup))):
        kept = draws[:, part]
        if kept.shape[1] == 0:
            continue
        at = {"chain": np.arange(len(kept)), "draw": np.arange(kept.shape[1])}
        each = {name: (("chain", "draw"), kept[:, :, k]) for k, name in enumerate(names)}
        stats = {"accepted": (("chain", "draw"), moved[:, part])}
        groups[f"{prefix}posterior"] = dataset(each, at, dict(attributes))
        groups[f"{prefix}sample_stats"] = dataset(stats, at)
    tree: xarray.DataTree = loaded("xarray").DataTree.from_dict(groups)
    tree.attrs = dict(attributes)
    return tree
