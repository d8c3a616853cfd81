"""Responses of several categories for experiments: fits without privacy, and cases on real rows.

Coefficients are flat, (k d,), all of one category first; the first category is the reference.
"""

import numpy as np

from dpmcmc.families.multinomial import probabilities


def drawn(x, theta, rng):
    """Codes (n,) at coefficients theta (k d,)."""
    ends = np.cumsum(np.vstack(probabilities(theta.reshape(-1, len(x)) @ x)), axis=0)[:-1]
    return (rng.random(x.shape[1]) > ends).sum(axis=0).astype(float)


def curvature(x, q):
    """(k d, k d), minus the Hessian of the log likelihood at probabilities q (k, n)."""
    classes = range(len(q))
    return np.block([[(x * (q[a] * ((a == b) - q[b]))) @ x.T for b in classes] for a in classes])


def fitted(x, y, precision=1e-9):
    """Mode and sds (k d,) of the posterior under Normal(0, 1 / precision)."""
    classes = int(y.max())
    theta, whole = np.zeros((classes, len(x))), np.eye(classes * len(x))
    for _ in range(50):
        _, q = probabilities(theta @ x)
        hit = y == np.arange(1, classes + 1)[:, None]
        score = ((hit - q) @ x.T).ravel() - precision * theta.ravel()
        whole = curvature(x, q) + precision * np.eye(theta.size)
        theta = theta + np.linalg.solve(whole, score).reshape(theta.shape)
    return theta.ravel(), np.sqrt(np.diag(np.linalg.inv(whole)))


def marital(known):
    """Adult: married, never, no longer."""
    words = known["marital_status"]
    return np.select(
        [np.char.startswith(words, "Married"), words == "Never-married"], [0.0, 1.0], 2.0
    )


def occupation(known):
    """Adult: three groups of occupations."""
    high = np.isin(known["occupation"], ["Exec-managerial", "Prof-specialty", "Tech-support"])
    some = ["Sales", "Adm-clerical", "Craft-repair", "Protective-serv"]
    return np.select([high, np.isin(known["occupation"], some)], [2.0, 1.0], 0.0)


def workclass(known):
    """Adult: private, own, public, none of them known; the last are one in seventeen."""
    words = known["workclass"]
    own, public = np.char.startswith(words, "Self"), np.char.endswith(words, "gov")
    return np.select([words == "Private", own, public], [0.0, 1.0, 2.0], 3.0)
