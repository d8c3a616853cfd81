"""The registry of releases. A line here makes one live; the line is the reviewed moment."""

from dpmcmc.releases import noisy_mean, noisy_quadratic
from dpmcmc.releases.auto import AutoOptions
from dpmcmc.releases.base import Release
from dpmcmc.releases.noisy_mean import NoisyMeanOptions
from dpmcmc.releases.noisy_quadratic import NoisyQuadraticOptions
from dpmcmc.samplers import SAMPLERS, Sampler, SamplerOptions

ReleaseOptions = NoisyMeanOptions | NoisyQuadraticOptions
AlgorithmOptions = SamplerOptions | ReleaseOptions | AutoOptions

RELEASES: dict[str, Release] = {
    release.name: release for release in (noisy_mean.RELEASE, noisy_quadratic.RELEASE)
}
ALGORITHMS: dict[str, Sampler | Release] = {**SAMPLERS, **RELEASES}

__all__ = [
    "ALGORITHMS",
    "RELEASES",
    "AlgorithmOptions",
    "AutoOptions",
    "NoisyMeanOptions",
    "NoisyQuadraticOptions",
    "Release",
    "ReleaseOptions",
]
