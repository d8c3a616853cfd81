"""All that a job can name: every sampler and every release."""

from typing import Any, Union

from dpmcmc.inputs.options import AutoOptions
from dpmcmc.releases import RELEASES, Release
from dpmcmc.samplers import SAMPLERS, Sampler

ALGORITHMS: dict[str, Sampler[Any, Any] | Release[Any, Any, Any]] = {**SAMPLERS, **RELEASES}
OPTIONS: Any = Union[(*(one.options for one in ALGORITHMS.values()), AutoOptions)]
