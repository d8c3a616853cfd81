"""Multinomial logistic regression: categories 0, 1, ..., K - 1, of which 0 is the reference.

A row has K - 1 predictors, the log odds of the other categories against the reference. With e_y the
indicator of its response and q their probabilities, psi = w (e_y - q) and the slope is
w (diag q - q q^T). w depends only on the covariates and the coefficients, so that psi has mean 0.
Constants: docs/proofs/noisy_quadratic.md, section 5.
"""

import numpy as np

from dpmcmc.families.scores.base import TINY, Floats, Place, Terms

LARGEST_SHIFT = 1.0  # that a predictor is moved, so that probabilities are means over its spread


def probabilities(eta: Floats) -> tuple[Floats, Floats]:
    """Return those of the reference (m,) and of the others (k, m), given predictors (k, m)."""
    top = np.maximum(eta.max(axis=0), 0.0)
    first, others = np.exp(-top), np.exp(eta - top)
    total = first + others.sum(axis=0)
    return first / total, others / total


def averaged(eta: Floats, cover: Floats) -> tuple[Floats, Floats]:
    """Return mean probabilities over predictors with this covariance (k, k, m).

    To the second order in it, and positive: those at eta + diag(cover) / 2 - cover @ q.
    """
    first, q = probabilities(eta)
    if not cover.size:
        return first, q
    shift = 0.5 * np.einsum("ccm->cm", cover) - np.einsum("cdm,dm->cm", cover, q)
    return probabilities(eta + np.clip(shift, -LARGEST_SHIFT, LARGEST_SHIFT))


def root_of(first: Floats, q: Floats) -> Floats:
    """Return (k, k, m) with root @ root.T = diag q - q q^T.

    For s = sqrt(q), |s|^2 = 1 - first: (1 - s s^T)^(1/2) = 1 - s s^T / (1 + sqrt(first)).
    """
    s = np.sqrt(q)
    root = -(q / (1.0 + np.sqrt(first)))[:, None] * s[None]
    root[range(len(q)), range(len(q))] += s
    return np.asarray(root)


def softened(root: Floats, cover: Floats) -> Floats:
    """Return a root of the mean slope over predictors with this covariance (k, k, m).

    To the second order in it: a mean of diag q - q q^T is that of the mean probabilities, root @
    root.T, less the covariance of q, root @ part @ root.T.
    """
    if not cover.size:
        return root
    part = np.einsum("cjm,cdm,dim->jim", root, cover, root, optimize=True)
    part = part / np.maximum(1.0, np.einsum("ccm->m", part))
    return np.asarray(root - 0.5 * np.einsum("cjm,jim->cim", root, part))


class Multinomial:
    """A row counts less where the response that would move the score most would be too much."""

    scaled, additive = False, False
    longest, pilot, level = 2.0, False, 0.2
    steepest, weighted = np.inf, False

    def terms(self, y: Floats, place: Place) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row."""
        first, q = averaged(place.eta, place.cover)
        seen, own = np.einsum("cdm,dm->cm", place.inner, q), np.einsum("ccm->cm", place.inner)
        mean = (q * seen).sum(axis=0)
        longest = np.sqrt(np.maximum(mean + np.maximum((own - 2.0 * seen).max(axis=0), 0.0), 0.0))
        slope = (q * own).sum(axis=0) - mean
        w = np.minimum(1.0, place.most / np.maximum(longest, TINY))
        w = np.minimum(w, place.curved / np.maximum(slope, TINY))
        hit = y == np.arange(1.0, len(q) + 1.0)[:, None]
        root = softened(root_of(first, q), place.cover)
        return Terms(w * (hit - q), np.sqrt(w) * root, w * root, np.zeros_like(y))
