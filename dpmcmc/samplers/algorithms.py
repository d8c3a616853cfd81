"""The registry of all algorithms that a job can name: samplers and releases."""

from typing import Any, Union

from dpmcmc.inputs.options import AutoOptions
from dpmcmc.releases import RELEASES, Release
from dpmcmc.samplers import SAMPLERS, Sampler

ALGORITHMS: dict[str, Sampler[Any, Any] | Release[Any, Any, Any]] = {**SAMPLERS, **RELEASES}
OPTIONS: Any = Union[(*(algorithm.options for algorithm in ALGORITHMS.values()), AutoOptions)]
