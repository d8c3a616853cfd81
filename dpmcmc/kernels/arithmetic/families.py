"""Codes of the likelihoods of a row given its linear predictor, see kernels/compiled/families."""

IDENTITY, LOGISTIC, POISSON, LINEAR = 0, 1, 2, 3
NOT_IN_KERNELS = -1  # by kernels: releases alone know these families
