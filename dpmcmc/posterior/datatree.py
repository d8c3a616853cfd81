"""Draws as an ArviZ DataTree, the same in the library, the service and netCDF files."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.loading import loaded
from dpmcmc.base.names import DRAW_COLUMNS, DRY_RUN, distinct

if TYPE_CHECKING:
    import xarray


def columns(parameters: Sequence[str]) -> list[str]:
    """Return parameters' names for files: distinct, and without slashes, which separate groups."""
    file_names = [name.replace("/", "|").replace("\0", "|") for name in parameters]
    file_names = [f"{name}_" if name in (".", "..") else name for name in file_names]
    taken = (*DRAW_COLUMNS, DRY_RUN)
    return list(distinct([*taken, *file_names])[len(taken) :])


def data_tree(
    draws: NDArray[np.float64],
    parameters: Sequence[str],
    num_warmup: int,
    attributes: Mapping[str, str | float],
) -> "xarray.DataTree":
    """Return draws (chain, draw, parameter), warm-up included, as a tree that ArviZ reads.

    posterior: the draws after the warm-up, a variable for each parameter, dims chain, draw.
    sample_stats: `accepted`, whether a draw differs from the draw before (1 for the first draw of a
    chain), which follows from the draws alone. warmup_posterior, warmup_sample_stats: the same of
    the warm-up, if there is one. attributes: of the tree and of its posterior.
    """
    dataset = loaded("xarray").Dataset
    names = columns(parameters)
    moved = np.ones(draws.shape[:2], np.int8)
    moved[:, 1:] = (np.diff(draws, axis=1) != 0.0).any(axis=2)
    groups = {}
    for prefix, part in (("", slice(num_warmup, None)), ("warmup_", slice(0, num_warmup))):
        part_draws = draws[:, part]
        if part_draws.shape[1] == 0:
            continue
        coordinates = {"chain": np.arange(len(part_draws)), "draw": np.arange(part_draws.shape[1])}
        variables = {name: (("chain", "draw"), part_draws[:, :, k]) for k, name in enumerate(names)}
        stats = {"accepted": (("chain", "draw"), moved[:, part])}
        groups[f"{prefix}posterior"] = dataset(variables, coordinates, dict(attributes))
        groups[f"{prefix}sample_stats"] = dataset(stats, coordinates)
    tree: xarray.DataTree = loaded("xarray").DataTree.from_dict(groups)
    tree.attrs = dict(attributes)
    return tree
