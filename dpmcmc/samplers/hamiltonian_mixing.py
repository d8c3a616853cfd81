"""The mixing model of DP HMC and DP MALA, for the planner.

EFFICIENCY_LOSS is a cautious assumption for posteriors that are not normal and for clipped
gradients: in experiments/ess_per_step.py, on N(0, I) without clipping, there are more effective
draws than this model expects.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import erfc, gammainc, gammaincc

from dpmcmc.base.errors import SpecError
from dpmcmc.families.assumptions import Assumptions
from dpmcmc.families.target import Floats
from dpmcmc.privacy import accountant
from dpmcmc.samplers.base import Expectation
from dpmcmc.samplers.penalty_mixing import LARGE_MU, LONGEST_MOVE_RATIO, MAX_RATIO_NATS, begun
from dpmcmc.samplers.starts import START_SHARES, chain_mu, error, settled

# The expected norms of rows' gradients, from public facts, and the clips that are tried.
MIN_CLIP_RATIO = 2.5  # least gradient clip over the root mean square norm of a row's gradient,
LARGE_CLIP, NUM_CLIPS = 30.0, 16  # one that is large, and how many are tried up to it,
CLIP_RATIOS = (45.0, 65.0, 100.0, 150.0, 220.0, 300.0)  # and beyond it
CLIPPING_SKEW = 0.2  # an assumption: part of a clipped tail that the other tail does not balance


def typical_gradient(assumptions: Assumptions) -> float:
    """Return the root mean square norm of a row's gradient near the mode."""
    scale = assumptions.rows * assumptions.tempering
    return math.sqrt(float(np.trace(assumptions.guess.precision)) / scale)


def gradient_clip(assumptions: Assumptions) -> float:
    """Return a norm that few per-row gradients exceed."""
    return float(f"{MIN_CLIP_RATIO * typical_gradient(assumptions):.4g}")


def clips(assumptions: Assumptions) -> Floats:
    """Return norms to clip gradients to, from one that few rows exceed to one that none can."""
    typical, steepest = typical_gradient(assumptions), assumptions.guess.steepest
    tried = typical * np.array([*np.geomspace(MIN_CLIP_RATIO, LARGE_CLIP, NUM_CLIPS), *CLIP_RATIOS])
    return np.asarray([*tried[tried < steepest], *([steepest] if steepest < tried[-1] else [])])


def clip_bias(assumptions: Assumptions, clip: float) -> float:
    """Return the approximate shift of the mode by clipping, in posterior sds.

    Norms are assumed to have exponential tails, as those of counts or squares have.
    """
    if clip >= assumptions.guess.steepest:
        return 0.0
    tail = math.exp(-math.sqrt(2.0) * clip / typical_gradient(assumptions)) / math.sqrt(2.0)
    return CLIPPING_SKEW * tail * math.sqrt(assumptions.rows * assumptions.tempering)


STEPS_RANGE = 100.0, 30_000.0  # chains that are tried
NEAR_BEST_SHARE = 0.9  # of the most draws, where fewer steps give them,
CLIP_TOLERANCE = 0.97  # and where a wider clip does
NARROW_CLIPS = (0.5, 0.7, 1.0, 1.4, 1.9)  # clips over a typical gradient, beside wide ones
WIDE_CLIPS = (5.0, 10.0, 20.0, 40.0)  # and larger ones that no gradient can exceed
EFFICIENCY_LOSS = 0.6  # draws of a chain over those of the formula
# squared distance of a far state beyond that of a usual one, of one coefficient; over d, of d
FAR_STATES = 3.0
MOST_LEAPFROG = 100
OUTLIER_RATIO = 1.5  # times the ratio that hardly any row exceeds
RATIO_NOISE_LIMIT = 1.3  # sd of a ratio's noise, where all coefficients move by one posterior sd
RATIO_BUDGET_SHARES = {
    False: 0.5,
    True: 0.75,
}  # share of a chain's mu^2, gradients have the rest; true: started
# error in posterior sds of a gradient from the start's release: an assumption
START_GRADIENT_ERROR = 0.5
MAX_START_DISTANCE = 100.0  # largest assumed error of a start, in posterior sds
MIN_WARMUP_DRAWS = 0.25  # least effective draws of a warm-up


@dataclass(frozen=True, slots=True)
class HamiltonianMixing:
    """The mixing model of DP HMC and DP MALA. Half of a chain's mu^2 is for ratios, or more after
    a start, whose release gives a control variate of gradients."""

    def shares(self, options: Any, mu: float) -> tuple[float, ...]:
        """Return the parts of mu^2 that the planner tries for a start."""
        return START_SHARES

    def settle(self, options: Any, assumptions: Assumptions) -> Any:
        """Return options with all values that do not depend on the budget. Raises SpecError."""
        precision = np.diag(assumptions.guess.precision)
        d = len(precision)
        planned = tuple(float(f"{m:.6g}") for m in precision)
        mass = planned if options.mass is None else options.mass
        _check(options, mass, d)
        return replace(options, mass=mass, start=settled(options.start, assumptions))

    def steps(self, options: Any, assumptions: Assumptions, mu: float, chains: int) -> float:
        """Return the least number of steps with nearly the most effective draws."""
        share = chain_mu(options.start, mu) * math.sqrt(_ratios(options))
        clip = options.gradient_clip or typical_gradient(assumptions)
        leapfrog, clip_errors = options.num_leapfrog, _clip_errors(assumptions, [clip])
        sizes = _sizes(options)

        def draws(steps: float) -> float:
            z = math.sqrt(steps * chains) / share
            noise = options.gradient_noise_multiplier or _noise(options, z, leapfrog)
            tested = replace(options, gradient_noise_multiplier=noise)
            return steps * float(_all_draws(tested, assumptions, z, sizes, clip_errors).max())

        grid: list[float] = np.geomspace(*STEPS_RANGE, 30).tolist()
        if options.gradient_noise_multiplier is not None:  # then gradients take what they cost
            most = _most_steps(options, chain_mu(options.start, mu) ** 2 * (1.0 - _ratios(options)))
            grid = [steps for steps in grid if steps * chains <= most] or grid[:1]
        tested = {steps: draws(steps) for steps in grid}
        return float(
            min(
                s
                for s, draws_there in tested.items()
                if draws_there >= NEAR_BEST_SHARE * max(tested.values())
            )
        )

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """Return the noise multiplier of ratios, so that a run costs at most (epsilon, delta).

        Gradients have the rest of the budget, or the multiplier that the caller gave.
        """
        mu = chain_mu(options.start, accountant.mu_of_epsilon(epsilon, delta))
        ratios = options.num_steps * options.num_chains
        if options.gradient_noise_multiplier is None:
            remaining = mu**2 * _ratios(options)
        else:
            gradients = options.num_chains * (options.num_steps * options.num_leapfrog + 1)
            remaining = mu**2 - gradients / options.gradient_noise_multiplier**2
            if remaining <= 0.0:
                least = math.sqrt(gradients / (mu**2 * (1.0 - _ratios(options))))
                costs = f"costs more than the budget for {gradients} gradients, without any ratio"
                remedy = f"take {least:.3g} or more, fewer steps, or a larger epsilon"
                raise SpecError("/sampler/gradient_noise_multiplier", f"{costs}: {remedy}")
        return math.sqrt(ratios / remaining) * (1.0 + 1e-12)

    def expectation(
        self, options: Any, assumptions: Assumptions, noise_multiplier: float
    ) -> Expectation:
        """Return the complete options with the expected mixing. Raises SpecError."""
        z = noise_multiplier
        if options.gradient_noise_multiplier is None:
            gradients_a_step = options.num_leapfrog + 1.0 / options.num_steps
            noise = _noise(options, z, gradients_a_step) * (1 + 1e-12)
            options = replace(options, gradient_noise_multiplier=noise)
        options = _best(options, assumptions, z)
        draws = _draws(options, assumptions, z, options.step_size)
        chains, steps = options.num_chains, options.num_steps
        gradients = (steps * options.num_leapfrog + 1) / options.gradient_noise_multiplier**2
        spent = math.sqrt(chains * (steps / z**2 + gradients))
        options, guess = begun(options, assumptions, spent)
        distance = float((guess.distance / assumptions.sds).max())
        approach_draws = _draws(options, assumptions, z * max(1.0, distance), options.step_size)
        return Expectation(
            options,
            draws,
            math.ceil(max(MIN_WARMUP_DRAWS, 1.0 + math.log(distance)) / approach_draws),
        )

    def clips_ratios(self, options: Any, assumptions: Assumptions, noise_multiplier: float) -> bool:
        """Return whether usual moves have ratios beyond the clip of the complete options."""
        return _declared_width(assumptions) > _clipped_width(options, assumptions, noise_multiplier)

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """Return the approximate number of columns (of all rows) that a step of one chain reads."""
        return float(dimension * (2 * options.num_leapfrog + 1))


def _ratios(options: Any) -> float:
    """Return the part of a chain's mu^2 that ratios have."""
    return RATIO_BUDGET_SHARES[options.start is not None]


def _most_steps(options: Any, square: float) -> float:
    """Return the number of steps of all chains whose gradients cost this mu^2."""
    return square * float(options.gradient_noise_multiplier) ** 2 / float(options.num_leapfrog)


def _noise(options: Any, z: float, gradients: float) -> float:
    """Return the noise multiplier of each of a step's gradients, given z of the ratios."""
    part = _ratios(options)
    return z * math.sqrt(gradients * part / (1.0 - part))


def _check(options: Any, mass: tuple[float, ...], dimension: int) -> None:
    """Refuse impossible numbers. Raises SpecError."""
    if len(mass) != dimension:
        raise SpecError("/sampler/mass", f"must have {dimension} entries")
    if not all(1e-12 <= m <= 1e120 for m in mass):
        raise SpecError("/sampler/mass", "must be between 1e-12 and 1e120")
    leapfrog = options.num_leapfrog
    if type(leapfrog) is not int or not 1 <= leapfrog <= MOST_LEAPFROG:
        raise SpecError(
            "/sampler/num_leapfrog", f"must be a whole number between 1 and {MOST_LEAPFROG}"
        )
    numbers = (
        ("step_size", 1e-9, 1e3),
        ("gradient_clip", 1e-9, 1e6),
        ("gradient_noise_multiplier", 1e-4, 1e9),
    )
    for name, least, most in numbers:
        value = getattr(options, name)
        if value is not None and not least <= value <= most:
            raise SpecError(f"/sampler/{name}", f"must be between {least:g} and {most:g}")


def _sizes(options: Any) -> Floats:
    """Return step sizes to try: many, or what the caller fixed."""
    if options.step_size is not None:
        return np.array([options.step_size])
    return np.asarray(np.geomspace(0.02, 2.0, 40) / options.num_leapfrog)


def _best(options: Any, assumptions: Assumptions, z: float) -> Any:
    """Return the options with the step size and the gradient clip that give the most draws.

    With a large budget, take the widest clip with nearly as many: rows may be more outlying than
    assumed.
    """
    steps, clip_given = _sizes(options), options.gradient_clip
    clips = [
        float(f"{clip:.4g}")
        for clip in (_clips(assumptions) if clip_given is None else [clip_given])
    ]
    draws = _all_draws(options, assumptions, z, steps, _clip_errors(assumptions, clips))
    draws_of_clip = draws.max(axis=1)
    wide = np.flatnonzero(draws_of_clip >= CLIP_TOLERANCE * draws_of_clip.max())[-1]
    clip = int(wide if (assumptions.mu or 0.0) >= LARGE_MU else draws_of_clip.argmax())
    step = int(draws[clip].argmax())
    size = float(f"{float(steps[step]):.4g}")
    return replace(options, gradient_clip=clips[clip], step_size=size)


def _clips(assumptions: Assumptions) -> list[float]:
    """Return clips to try; a small clip lowers acceptance, but does not bias the chain."""
    typical = typical_gradient(assumptions)
    narrow, usual = [factor * typical for factor in NARROW_CLIPS], clips(assumptions).tolist()
    generous = (assumptions.mu or 0.0) >= LARGE_MU  # after a start they are cut elsewhere
    wide = [factor * typical for factor in WIDE_CLIPS if generous and factor * typical > usual[-1]]
    return [*narrow, *usual, *wide]


def _mean_kept(dimension: int, clip: float) -> float:
    """Return the factor by which clipping shrinks the mean of gradients near the mode.

    For normal gradients whose norm has root mean square 1.
    """
    half, square = 0.5 * dimension, 0.5 * clip * clip * dimension
    inside = float(gammainc(half, square))
    if dimension == 1:
        return inside
    inverse = math.exp(math.lgamma(half - 0.5) - math.lgamma(half)) * math.sqrt(half)
    outside = inverse * float(gammaincc(half - 0.5, square))
    return inside + (1.0 - 1.0 / dimension) * clip * outside


def _clip_errors(assumptions: Assumptions, clips: list[float]) -> Floats:
    """Return (2, clip): the clips, and the squared errors of gradients that are clipped to them."""
    d, typical = len(assumptions.sds), typical_gradient(assumptions)
    errors = [
        clip_bias(assumptions, c) ** 2 + (1.0 - _mean_kept(d, c / typical)) ** 2 for c in clips
    ]
    return np.array([clips, d * np.array(errors)])


def _draws(options: Any, assumptions: Assumptions, z: float, step: float) -> float:
    """Return the effective draws of one step."""
    clip_errors = _clip_errors(assumptions, [options.gradient_clip])
    return float(_all_draws(options, assumptions, z, np.array([step]), clip_errors)[0, 0])


def _all_draws(
    options: Any, assumptions: Assumptions, z: float, steps: Floats, clip_errors: Floats
) -> Floats:
    """Return effective draws (clip, step) of one step, for each clip and each step size."""
    noise = (
        options.gradient_noise_multiplier * 2.0 * clip_errors[0][:, None] * assumptions.tempering
    )
    noise_square = noise**2 * _noise_square(options, assumptions)
    clip_error = clip_errors[1][:, None]
    if options.start is not None:
        noise_square, clip_error = with_control_variate(
            noise_square, _start_error(options, assumptions), options.num_leapfrog, clip_error
        )[1:]
    facts = (z * _width(options, assumptions, z), noise_square, len(assumptions.sds), clip_error)
    return trajectory_draws(steps, options.num_leapfrog, *facts)


def _start_error(options: Any, assumptions: Assumptions) -> float:
    """Return the squared error of a gradient from the release, in posterior sds."""
    start_error = error(options.start, assumptions)
    return float(
        len(assumptions.sds) * (START_GRADIENT_ERROR**2 + min(start_error, MAX_START_DISTANCE) ** 2)
    )


def with_control_variate(
    noise_square: Floats, start_error: float, num_leapfrog: int, clip_error: Floats | float = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Return the weight of noisy gradients against those from a release, and both errors with it.

    noise_square, clip_error: see `trajectory_draws`. start_error: squared error of a gradient from
    the released mode and precision. The weight gives the least error of a trajectory, over which
    noise averages.
    """
    weight = start_error / (start_error + noise_square / num_leapfrog)
    return (
        weight,
        weight**2 * noise_square,
        weight**2 * clip_error + (1.0 - weight) ** 2 * start_error,
    )


def _noise_square(options: Any, assumptions: Assumptions) -> float:
    """Return the mean squared length of a gradient's noise, in posterior sds.

    After a start gradients are clipped in whitened coordinates.
    """
    if options.start is None:
        return float((assumptions.sds**2).sum())
    return len(assumptions.sds) ** 2 / float(np.trace(assumptions.guess.precision))


def _width(options: Any, assumptions: Assumptions, z: float) -> float:
    """Return the typical width of one row's interval for a move of one posterior sd.

    After a start it is clipped.
    """
    return min(_declared_width(assumptions), _clipped_width(options, assumptions, z))


def _declared_width(assumptions: Assumptions) -> float:
    """Return the typical width that the declared bounds allow."""
    return assumptions.guess.joint_width * math.sqrt(2.0 / math.pi) * assumptions.mean_sd


def _clipped_width(options: Any, assumptions: Assumptions, z: float) -> float:
    """Return the typical width to which ratios are clipped."""
    if options.start is None:
        return math.inf
    d, bounded = len(assumptions.sds), math.isfinite(assumptions.guess.steepest)
    most = ratio_clip(assumptions.rows, assumptions.tempering, z, d, bounded=bounded)
    return 2.0 * assumptions.tempering * most * math.sqrt(d)


def ratio_clip(rows: int, tempering: float, z: float, dimension: int, *, bounded: bool) -> float:
    """Return the clip of a row's log ratio for a move of one posterior sd, after a start.

    It is so large that hardly any row is clipped, or larger if the noise stays small. Where a model
    bounds per-row gradients itself, it is used only for outliers with small noise. z: noise
    multiplier of ratios. Reasons: docs/proofs/dp_hmc.md.
    """
    quiet = min(RATIO_NOISE_LIMIT / z, MAX_RATIO_NATS) / (2.0 * tempering * math.sqrt(dimension))
    usual = LONGEST_MOVE_RATIO / math.sqrt(rows * tempering)
    if bounded:
        return quiet if quiet > OUTLIER_RATIO * usual else math.inf
    return max(usual, quiet)


def trajectory_draws(
    steps: Floats,
    num_leapfrog: int,
    ratio: float,
    noise_square: Floats | float,
    dimension: int,
    clip_error: Floats | float = 0.0,
) -> Floats:
    """Return effective draws of one step, for each step size, (k,) or broadcast.

    ratio: sd of a ratio's noise for a move of one posterior sd. noise_square: squared norm of a
    gradient's noise, in posterior sds. clip_error: squared error of clipped gradients. A trajectory
    of length t rotates the position by the angle t; the noise of the ratio and the energy error of
    noisy gradients determine its acceptance rate. The noise grows with the length of the move,
    which is longer from a state far from the mode, where a chain then stays: FAR_STATES.
    """
    lengths = steps * num_leapfrog
    turn = 1.0 - np.cos(np.minimum(lengths, math.pi))
    coarse = dimension * steps**6 / 32.0  # leapfrog error of exact gradients, squared
    far = 2.0 * turn + FAR_STATES / dimension * turn**2
    energy = far * ratio**2 + steps * lengths * noise_square + coarse + lengths**2 * clip_error
    moved = EFFICIENCY_LOSS * erfc(np.sqrt(0.125 * energy)) * turn
    return np.asarray(np.maximum(moved / (2.0 - moved), 1e-12))
