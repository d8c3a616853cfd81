"""How a row's log likelihood follows from its linear predictor; see dpmcmc/kernels/rows.py."""

IDENTITY, LOGISTIC, POISSON, LINEAR = 0, 1, 2, 3
SEVERAL = -1  # predictors a row, which no kernel reads
