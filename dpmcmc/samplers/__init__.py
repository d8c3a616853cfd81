"""The registry of samplers: an algorithm is available once it has a line here."""

from typing import Any

from dpmcmc.samplers import (
    dp_barker,
    dp_hmc,
    dp_mala,
    dp_penalty,
    dp_penalty_component,
    dp_penalty_guided,
    dp_penalty_subsampled,
)
from dpmcmc.samplers.base import Sampler

SAMPLERS: dict[str, Sampler[Any, Any]] = {
    sampler.name: sampler
    for sampler in (
        dp_penalty.SAMPLER,
        dp_penalty_component.SAMPLER,
        dp_penalty_guided.SAMPLER,
        dp_penalty_subsampled.SAMPLER,
        dp_barker.SAMPLER,
        dp_hmc.SAMPLER,
        dp_mala.SAMPLER,
    )
}

__all__ = ["SAMPLERS", "Sampler"]
