"""How rows are cut at an iterate of the Newton path, by public and by released numbers alone."""

import math

import numpy as np

from dpmcmc.mechanisms.joint_sums import Caps, Sums
from dpmcmc.releases import scales
from dpmcmc.releases.quadratic_steps import MIN_WEIGHT_CUT

NOISE = 0.05  # part of an iterate that the score's variance has
LEAST_CURVE, MOST_CURVE = 0.11, 0.4  # the same of the curvature,
TARGET_CURVATURE_NOISE = 0.08  # the larger, the more its noise is above this part of it
# times a mean slope * length^2, beyond which rows are weighted down at any noise, but such a part
# of the curvature; noise of a score, in posterior sds, for which no row is cut
MAX_WEIGHT_CUT, UNHEARD_CURVATURE, UNHEARD_SCORE = 20.0, 0.005, 0.01
# noise of a score, in posterior sds, that does not matter: no clip below it. The second where
# residuals are wider than the model's, since clipping then adds bias
NEGLIGIBLE_NOISE, NEGLIGIBLE_NOISE_WIDE = 0.2, 1.0
# residual scale over that of the model, from which residuals count as wider
WIDE_RESIDUAL_SCALE = 1.3
FIRST_CLIP, LEAST_CLIP, MOST_CLIP, WIDEST_CLIP = 1.5, 0.7, 10.0, 50.0
# what is left of the score's variance where noise decides how rows are cut
TARGET_KEPT_VARIANCE = 0.8
TIGHT_CLIP_RATIO = 1.5  # times a clip that is that tight


class Cuts:
    """The clip of scores, which follows what earlier ones left of their variance.

    size: number of coefficients. scaled: whether residuals have a scale.
    """

    def __init__(self, size: int, *, scaled: bool) -> None:
        self._size, self._scaled, self._clip = size, scaled, FIRST_CLIP

    def caps(
        self,
        rows: float,
        z: float,
        pooled: float,
        square: float,
        rough: float,
        *,
        faithful: bool = False,
    ) -> tuple[Caps, float, float]:
        """Return the caps of an iterate, the clip of its score and the cut of squared residuals.

        z, pooled: noise multipliers, of it and of all of its kind together. square: part of the
        iterate that the scale has. rough: scale of the residuals over that of the model, at least
        1: cut as close as those of the model they would be cut nearly all, and the cut ones are not
        the mean's any more. faithful: whether the scale is released for its own sake,
        and not only to find places: its cut then hides few of the tails that residuals may have.
        """
        p, square = self._size, square if self._scaled else 0.0
        blur = math.sqrt(2.0 / LEAST_CURVE) * MIN_WEIGHT_CUT * p * z / rows * math.sqrt(2.0 * p)
        curve = min(max(LEAST_CURVE * blur / TARGET_CURVATURE_NOISE, LEAST_CURVE), MOST_CURVE)
        parts = (1.0 - NOISE - square - curve, curve, NOISE, square)
        # noise in posterior sds for a clip of 1
        each = 2.0 * math.sqrt(p / (rows * parts[0])) * pooled
        quiet = NEGLIGIBLE_NOISE if rough < WIDE_RESIDUAL_SCALE else NEGLIGIBLE_NOISE_WIDE
        clip = min(max(quiet / each, self._clip), max(WIDEST_CLIP, UNHEARD_SCORE / each)) * rough
        blur = blur * math.sqrt(LEAST_CURVE / curve) / MIN_WEIGHT_CUT
        most = max(TARGET_CURVATURE_NOISE / blur, MIN_WEIGHT_CUT) * p
        most = min(most, max(MAX_WEIGHT_CUT, UNHEARD_CURVATURE / blur) * p)
        cut = 1.0
        if square:
            noise = math.sqrt(2.0 / square) / math.sqrt(rows)
            cut = scales.best_cut(noise * z)
            if faithful:
                cut = scales.faithful_cut(noise * pooled, rows)
        return Caps(clip * math.sqrt(p), most, most, cut * cut, parts), clip, cut

    def follow(self, sums: Sums, clip: float, rough: float) -> None:
        """Fit the clip to how much of the score's variance the last one left."""
        trace = float(np.trace(sums.curvature))
        clear = trace > 4.0 * (sums.sds[1] + sums.sds[2]) * math.sqrt(self._size)
        clip /= rough
        if clear and clip <= TIGHT_CLIP_RATIO * self._clip:
            kept = min(max(float(np.trace(sums.noise)) / trace, 0.05), 1.0)
            self._clip = min(max(clip * TARGET_KEPT_VARIANCE / kept, LEAST_CLIP), MOST_CLIP)
