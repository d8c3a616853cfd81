"""Whether the two near looks of a release agree, and what follows where they do not.

A look tells the score at its place, and by the curvature the score elsewhere. Where few rows carry
a direction the first look may lie so far out that its score is no line up to the second one. What
the last look says then stands alone, with its own noise.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from dpmcmc.families.scores.base import TINY
from dpmcmc.mechanisms.joint_sums import Floats

SURPRISING = 0.005  # probability of such a difference of two scores by noise alone
SPARSE_DIRECTION_RATIO = 0.5  # of the usual curvature, where a direction is carried by few rows
CLEAR_SCORE_SDS = 2.0  # sds of noise, beyond which a score says that the place lies further on


class Looks(Protocol):
    """What is read of a stored release: see Quadratic."""

    @property
    def root(self) -> Floats:
        """Coordinates (p, p)."""

    @property
    def score(self) -> Floats:
        """Both scores, pooled (p,)."""

    @property
    def score_sd(self) -> float:
        """Sd of its noise."""

    @property
    def curvature(self) -> Floats:
        """Of both, pooled (p, p)."""

    @property
    def curvature_sd(self) -> float:
        """Sd of its noise."""

    @property
    def places(self) -> Floats:
        """Of the two looks (2, p)."""

    @property
    def scores(self) -> Floats:
        """Of the two looks (2, p)."""

    @property
    def score_sds(self) -> Floats:
        """Of the two looks (2,)."""

    @property
    def scaled(self) -> bool:
        """Whether a log scale is a parameter."""


def compared(looks: Looks) -> tuple[Floats, Floats, float]:
    """Return (step (p,), what scores differ by beyond it (p,), variance of that by noise)."""
    step = np.linalg.solve(looks.root, looks.places[1] - looks.places[0])
    turned = looks.scores[1] - looks.scores[0] + looks.curvature @ step
    allowed = float((looks.score_sds**2).sum()) + looks.curvature_sd**2 * float(step @ step)
    return step, turned, allowed


def unmoved(looks: Looks, vectors: Floats) -> NDArray[np.bool_]:
    """Return (p,) in which of the curvature's directions the last score still pulls on.

    Asked of those alone that few rows carry, which the place may be far from.
    """
    sizes = np.einsum("pk,pq,qk->k", vectors, looks.curvature, vectors)
    step, turned, allowed = compared(looks)
    turned, moved, pull = vectors.T @ turned, vectors.T @ step, vectors.T @ looks.scores[1]
    on = (pull * moved > 0.0) & (turned * moved > 0.0)
    on &= (np.abs(turned) > CLEAR_SCORE_SDS * allowed**0.5) & few(sizes)
    return np.asarray(on & (np.abs(pull) > CLEAR_SCORE_SDS * looks.score_sds[1]))


def parted(looks: Looks, vectors: Floats) -> NDArray[np.bool_]:
    """Return (p,) in which of the curvature's directions the looks differ by more than noise.

    Of those that few rows carry; none where the looks have scales of their own.
    """
    sizes = np.einsum("pk,pq,qk->k", vectors, looks.curvature, vectors)
    _, turned, allowed = compared(looks)
    surprise = (vectors.T @ turned) ** 2 / max(allowed, TINY)
    apart = (surprise > chdtri(1, SURPRISING / len(sizes))) & few(sizes)
    return np.asarray(apart & ~unmoved(looks, vectors) & (not looks.scaled))


def agreed(looks: Looks) -> tuple[Floats, Floats]:
    """Return the score (p,) at the pooled place, and the covariance (p, p) of its noise.

    Of the last look alone in the directions in which the first is parted from it.
    """
    vectors = np.linalg.eigh(looks.curvature)[1]
    apart, noise = vectors[:, parted(looks, vectors)], looks.score_sd**2 * np.eye(len(vectors))
    if not apart.shape[1]:
        return looks.score, noise
    first, last = looks.score_sds**2
    turned = compared(looks)[1]
    score = looks.score + last / (first + last) * apart @ (apart.T @ turned)
    return score, noise + (last - looks.score_sd**2) * apart @ apart.T


def few(sizes: Floats) -> NDArray[np.bool_]:
    """Return (p,) which directions, with these curvatures, carry the information of few rows."""
    return np.asarray(sizes < SPARSE_DIRECTION_RATIO * np.median(sizes))
