"""Symmetric correction noise of the Barker test, from experiments/fit_barker_correction.py.

V is +-LOCATIONS[k] with probability WEIGHTS[k]. With N(0, VARIANCE) added it is nearly logistic:
sup over x of |P(x + N(0, VARIANCE) + V > 0) - 1 / (1 + exp(-x))| <= ERROR.
"""

VARIANCE = 2.0
LOCATIONS = (0.006, 2.947, 2.953, 9.213, 9.254)
WEIGHTS = (0.865979515, 0.034258105, 0.097527848, 0.001710965, 0.000523567)
ERROR = 0.0005876
