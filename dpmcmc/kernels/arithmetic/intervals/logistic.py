"""Public interval of one row's log likelihood ratio in logistic regression, from bounds alone.

Scalar code without calls between functions, so that it runs as plain Python (the planner) and
compiled (the kernels). Derivation: docs/proofs/dp_penalty_component.md, section 2, and
docs/proofs/dp_penalty.md, section 2. Every interval is widened by one part in 2^40 against
rounding.
"""

import math
from typing import Any

from dpmcmc.kernels.arithmetic.intervals.shared import ROUNDING_MARGIN

Array = Any


def component_interval(
    theta: Array, j: int, delta: float, lower: Array, upper: Array, group: Array
) -> tuple[float, float]:
    """Return (lo, hi) with lo <= l(theta + delta e_j) - l(theta) <= hi for all rows, in nats.

    theta, lower, upper, group: (d,), see Design. Rows: every x within the bounds whose columns of
    one group are not different from zero together, both responses. Antisymmetric: the move back has
    (-hi, -lo). Never raises.
    """
    # the other columns' part of x^T theta lies in [low, high] wherever x_j is not zero
    low, high, k, dimension = 0.0, 0.0, 0, len(theta)
    while k < dimension:
        first, part_low, part_high = k, math.inf, -math.inf
        while k < dimension and group[k] == group[first]:
            a, b = lower[k] * theta[k], upper[k] * theta[k]
            part_low, part_high = min(part_low, a, b), max(part_high, a, b)
            k += 1
        if k - first > 1:
            part_low, part_high = min(part_low, 0.0), max(part_high, 0.0)
        if group[first] != group[j]:
            low, high = low + part_low, high + part_high
    start, end = min(theta[j], theta[j] + delta), max(theta[j], theta[j] + delta)
    top, bottom = 0.0, 0.0
    for case in range(4):
        weight = upper[j] if case % 2 == 0 else -lower[j]
        if weight <= 0.0:
            continue
        # (x_j > 0, s = 1), (x_j < 0, s = -1) push the ratio up; their mirror images push it down
        reach = -low if case in (0, 3) else high
        t0, t1 = (start, end) if case < 2 else (-end, -start)
        # integral over t0..t1 of max over 0 <= u <= weight of u sigmoid(reach - u t)
        knee = t1
        peak = 1.0
        if weight * t1 > 1.0:
            # peak solves v sigmoid(reach - v) ... = v - 1: nu + ln nu = reach - 1, v = 1 + nu
            y = math.exp(min(reach - 1.0, 700.0))
            nu = y / (1.0 + y)
            for _ in range(60):
                nu -= (nu + math.log(nu) - (reach - 1.0)) / (1.0 + 1.0 / nu)
            peak = 1.0 + nu
            knee = min(max(peak / weight, t0), t1)
        value = 0.0
        if knee > t0:
            span, argument = weight * (knee - t0), reach - weight * t0
            if span > 30.0:
                value += max(argument, 0.0) + math.log1p(math.exp(-abs(argument)))
                argument -= span
                value -= max(argument, 0.0) + math.log1p(math.exp(-abs(argument)))
            else:
                argument -= span
                value += math.log1p(math.expm1(span) / (1.0 + math.exp(min(-argument, 700.0))))
        if t1 > knee:
            value += (peak - 1.0) * math.log(t1 / knee)
        if case < 2:
            top = max(top, value)
        else:
            bottom = max(bottom, value)
    widen = 1.0 + ROUNDING_MARGIN
    if delta < 0.0:
        return -top * widen, bottom * widen
    return -bottom * widen, top * widen


def vector_interval(
    theta: Array, delta: Array, lower: Array, upper: Array, group: Array
) -> tuple[float, float]:
    """Return (lo, hi) with lo <= l(theta + delta) - l(theta) <= hi for all rows, in nats.

    theta, delta, lower, upper, group: (d,). Antisymmetric: the move back has (-hi, -lo).
    """
    # margins |x^T theta| <= here, |x^T (theta + delta)| <= there, |x^T delta| <= span
    here_low, here_high, there_low, there_high, span_low, span_high = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    k, dimension = 0, len(theta)
    while k < dimension:
        first = k
        p0, p1, q0, q1 = math.inf, -math.inf, math.inf, -math.inf
        r0, r1 = math.inf, -math.inf
        while k < dimension and group[k] == group[first]:
            a, b = lower[k] * theta[k], upper[k] * theta[k]
            p0, p1 = min(p0, a, b), max(p1, a, b)
            a, b = lower[k] * (theta[k] + delta[k]), upper[k] * (theta[k] + delta[k])
            q0, q1 = min(q0, a, b), max(q1, a, b)
            a, b = lower[k] * delta[k], upper[k] * delta[k]
            r0, r1 = min(r0, a, b), max(r1, a, b)
            k += 1
        if k - first > 1:
            p0, p1 = min(p0, 0.0), max(p1, 0.0)
            q0, q1 = min(q0, 0.0), max(q1, 0.0)
            r0, r1 = min(r0, 0.0), max(r1, 0.0)
        here_low, here_high = here_low + p0, here_high + p1
        there_low, there_high = there_low + q0, there_high + q1
        span_low, span_high = span_low + r0, span_high + r1
    span = max(span_high, -span_low)
    here, there = max(here_high, -here_low), max(there_high, -there_low)
    if span > 30.0:
        hi = max(here, 0.0) + math.log1p(math.exp(-abs(here)))
        hi -= max(here - span, 0.0) + math.log1p(math.exp(-abs(here - span)))
        lo = max(there, 0.0) + math.log1p(math.exp(-abs(there)))
        lo -= max(there - span, 0.0) + math.log1p(math.exp(-abs(there - span)))
    else:
        hi = math.log1p(math.expm1(span) / (1.0 + math.exp(min(span - here, 700.0))))
        lo = math.log1p(math.expm1(span) / (1.0 + math.exp(min(span - there, 700.0))))
    widen = 1.0 + ROUNDING_MARGIN
    return -lo * widen, hi * widen
