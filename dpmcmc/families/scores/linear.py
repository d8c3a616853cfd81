"""Linear regression: Huber's score, with a clip that depends on the covariates of the row.

A row with long covariates is clipped earlier, so that the influence of every row is bounded
(Krasker and Welsch 1982). A clipped residual of a symmetric error has mean 0 for any clip.
"""

import numpy as np
from scipy.special import ndtr

from dpmcmc.families.scores.base import (
    TINY,
    UNCUT,
    Evaluation,
    Floats,
    Link,
    Terms,
    Variance,
    single,
)

WIDEST_CLIP = 8.0  # residual sds beyond which every row is clipped
SURELY_WIDE = 40.0  # sds, beyond which a normal density is 0 in floating point
OUTLIER_SDS = 3.0  # sds, that few residuals are off where the mean is near
SQRT_TWO_PI = np.sqrt(2.0 * np.pi)


def _uncut(clip: Floats) -> bool:
    """Return whether clips are so wide that floating point tells no moment from the whole one."""
    return bool(clip.size and clip.min() >= SURELY_WIDE)


def inside(clip: Floats) -> Floats:
    """Return P(|Z| < clip) of a standard normal Z."""
    if _uncut(clip):
        return np.ones_like(clip)
    return np.asarray(2.0 * ndtr(clip) - 1.0)


def clipped_square(clip: Floats) -> Floats:
    """Return E min(Z^2, clip^2), the second moment of a clipped standard normal Z."""
    if _uncut(clip):
        return np.ones_like(clip)
    tail = 2.0 * ndtr(-clip)
    return np.asarray(
        1.0 - tail - 2.0 * clip * np.exp(-0.5 * clip * clip) / SQRT_TWO_PI + clip * clip * tail
    )


def inner(clip: Floats) -> Floats:
    """Return E[Z^2; |Z| < clip] of a standard normal Z."""
    return np.asarray(clipped_square(clip) - clip * clip * (1.0 - inside(clip)))


def clipped_square_variance(clip: Floats) -> Floats:
    """Return the variance of min(Z^2, clip^2) of a standard normal Z."""
    density = 2.0 * np.exp(-0.5 * clip * clip) / SQRT_TWO_PI
    fourth = 3.0 * inner(clip) - clip**3 * density + clip**4 * (1.0 - inside(clip))
    return np.asarray(fourth - clipped_square(clip) ** 2)


class Linear:
    """Huber's score of normal residuals. scale: their sd. square: squared residuals."""

    link: Link = "identity"
    has_scale, log_scale, quadratic, variance = True, False, True, Variance(0.0)

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row.

        y: (m,), or (m, 2) with what stands beside, which is not read.
        """
        sd = at.scale
        z = ((y[:, 0] if y.ndim == 2 else y) - at.eta[0]) / sd
        widest = WIDEST_CLIP if at.most < UNCUT else UNCUT
        k = np.minimum(at.most * sd / np.maximum(at.row_norm, TINY), widest)
        slope = inside(k / np.sqrt(1.0 + (at.spread / sd) ** 2))
        if not at.spread.any():  # far from the mean the tangent of what is clipped is of no use
            slope = np.where(np.abs(z) > OUTLIER_SDS, np.minimum(slope, k / np.abs(z)), slope)
        w = np.minimum(1.0, at.curved * sd * sd / np.maximum(slope * at.row_norm**2, TINY))
        psi = w * np.clip(z, -k, k) / sd
        return single(
            psi, w * slope / sd**2, w * w * clipped_square(k) / sd**2, np.minimum(z * z, at.cut**2)
        )
