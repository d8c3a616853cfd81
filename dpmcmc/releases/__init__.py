"""The registry of releases. A release is available once it has a line here, which is reviewed."""

from typing import Any

from dpmcmc.releases import dp_vi, noisy_mean, noisy_quadratic, sufficient_statistics
from dpmcmc.releases.base import Release

RELEASES: dict[str, Release[Any, Any, Any]] = {
    release.name: release
    for release in (
        noisy_mean.RELEASE,
        noisy_quadratic.RELEASE,
        dp_vi.RELEASE,
        sufficient_statistics.RELEASE,
    )
}

__all__ = ["RELEASES", "Release"]
