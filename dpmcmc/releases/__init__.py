"""The registry of releases. A line here makes one live; the line is the reviewed moment."""

from dpmcmc.releases import noisy_mean, noisy_score
from dpmcmc.releases.auto import AutoOptions
from dpmcmc.releases.base import Release
from dpmcmc.releases.noisy_mean import NoisyMeanOptions
from dpmcmc.releases.noisy_score import NoisyScoreOptions
from dpmcmc.samplers import SAMPLERS, Sampler, SamplerOptions

ReleaseOptions = NoisyMeanOptions | NoisyScoreOptions
AlgorithmOptions = SamplerOptions | ReleaseOptions | AutoOptions

RELEASES: dict[str, Release] = {
    release.name: release for release in (noisy_mean.RELEASE, noisy_score.RELEASE)
}
ALGORITHMS: dict[str, Sampler | Release] = {**SAMPLERS, **RELEASES}

__all__ = [
    "ALGORITHMS",
    "RELEASES",
    "AlgorithmOptions",
    "AutoOptions",
    "NoisyMeanOptions",
    "NoisyScoreOptions",
    "Release",
    "ReleaseOptions",
]
