"""Checks of a job before it is planned: numbers in range, types right, run time bounded."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from numbers import Integral
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dpmcmc.base.errors import SpecError, is_number, near
from dpmcmc.families import MODELS
from dpmcmc.families.priors import check_numbers
from dpmcmc.formula.design import Design
from dpmcmc.inputs.options import AutoOptions, ComponentProposal, Proposal
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec, Spend, UpTo
from dpmcmc.planner.resolve import seconds
from dpmcmc.planner.select import MOST_SECONDS
from dpmcmc.privacy.promises import MOST_DELTA
from dpmcmc.releases.noisy_quadratic import MOST_ROUNDS
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.algorithms import ALGORITHMS
from dpmcmc.samplers.penalty_efficiency import MOST_STRETCH

# Fields of a job that hold something of another kind than they say, as callers from Python can.
WORDS = {
    float: "a number",
    int: "a whole number",
    bool: "True or False",
    str: "a word",
    tuple: "several values in a tuple",
    dict: "a dictionary",
}


def check_kinds(options: Any, pointer: str, known: Sequence[str] = ()) -> None:
    """Refuse a field, of a dataclass or of one nested in it, with a value of the wrong type.

    known: names of fields that are checked elsewhere. Raises SpecError at the field.
    """
    for name, hint in get_type_hints(type(options)).items():
        value, at = getattr(options, name), f"{pointer}/{name}"
        if name in known:
            continue
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if is_dataclass(value) and not isinstance(value, type):
            check_kinds(value, at)
        if not any(_is(value, kind) for kind in kinds):
            raise SpecError(at, _right(value, kinds))


def _is(value: object, kind: Any) -> bool:
    """Return whether a value is of a type that the annotation allows."""
    origin = get_origin(kind) or kind
    if origin is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if origin in (float, int):
        return is_number(value) and (origin is float or isinstance(value, Integral))
    if origin is tuple:
        return isinstance(value, Sequence) and not isinstance(value, str)
    return not isinstance(origin, type) or isinstance(value, origin)


def _right(value: object, kinds: Sequence[Any]) -> str:
    """Return in words which types are allowed."""
    words: list[str] = []
    for kind in kinds:
        origin = get_origin(kind) or kind
        if origin is Literal:
            names = get_args(kind)
            return f"must be one of {', '.join(names)}{near(str(value), names)}"
        if origin is not NoneType:
            words.append(WORDS.get(origin) or f"{origin.__name__}(...)")
    return f"must be {' or '.join(words)}"


COUNTS = ("num_steps", "num_chains", "num_warmup")
EPSILONS = 1e-4, 1e9
UNTIL = '{"up_to": 4, "until": "reliable"}'
EPSILON = f"must be between {EPSILONS[0]:g} and {EPSILONS[1]:g}, or {UNTIL}"
LEAST_DELTA = 1e-20  # a smaller delta has no meaning in practice
MAX_STEPS = 1_000_000
MAX_CHAINS = 16
MAX_NUMBERS = 20_000_000


def check_spec(schema: Schema, spec: JobSpec) -> None:
    """Refuse numbers of a job that are out of range. Raises SpecError."""
    if not isinstance(schema, Schema) or not isinstance(spec, JobSpec):
        raise TypeError("a plan takes a Schema and a JobSpec, in this order")
    model, options, privacy = spec.model, spec.sampler, spec.privacy
    if not isinstance(options, (AutoOptions, *(one.options for one in ALGORITHMS.values()))):
        raise SpecError("/sampler", "must be the options of an algorithm, of dpmcmc.inputs.options")
    if not isinstance(model.family, str) or model.family not in MODELS:
        guess = near(model.family, MODELS)
        raise SpecError("/model/family", f"must be one of {', '.join(MODELS)}{guess}")
    check_kinds(model, "/model", ("prior", "tempering"))
    check_kinds(options, "/sampler", COUNTS)
    _check_options(model)
    if schema.rows < 1:
        raise SpecError("/dataset", "the dataset has no rows")
    check_numbers(model.prior)
    _check_number("/model/tempering", model.tempering, 1e-9, 1.0)
    _check_number("/privacy/delta", privacy.delta, LEAST_DELTA, MOST_DELTA)
    check_epsilon(privacy)
    _check_number("/privacy/noise_multiplier", privacy.noise_multiplier, 1e-5, 1e9)
    if hasattr(options, "proposal"):
        _check_proposal(options.proposal)
    _check_number("/sampler/clip_bound", options.clip_bound, 1e-9, 1e6)
    _check_number("/sampler/clip_width", getattr(options, "clip_width", None), 1e-9, 1e6)
    _check_count("/sampler/num_steps", options.num_steps, 1, MAX_STEPS)
    _check_count("/sampler/num_chains", options.num_chains, 1, MAX_CHAINS)
    _check_count("/sampler/num_warmup", options.num_warmup, 0, MAX_STEPS)
    if not isinstance(spec.spend, str) or spec.spend not in get_args(Spend):
        raise SpecError("/spend", f"must be one of {', '.join(get_args(Spend))}")
    _check_until(spec)
    if (privacy.epsilon is None) == (privacy.noise_multiplier is None):
        raise SpecError("/privacy", "give one of epsilon and noise_multiplier")
    if privacy.epsilon is None and options.num_steps is None and options.algorithm in SAMPLERS:
        raise SpecError("/sampler/num_steps", "is needed beside a noise multiplier")


def check_epsilon(privacy: PrivacySpec) -> None:
    """Refuse an epsilon out of range. Raises SpecError."""
    epsilon = privacy.epsilon
    if not isinstance(epsilon, UpTo):
        if epsilon is not None and not is_number(epsilon):
            raise SpecError("/privacy/epsilon", EPSILON)
        _check_number("/privacy/epsilon", epsilon, *EPSILONS)
        return
    if not is_number(epsilon.up_to):
        raise SpecError("/privacy/epsilon/up_to", "must be a number")
    _check_number("/privacy/epsilon/up_to", epsilon.up_to, *EPSILONS)
    if epsilon.until != "reliable":
        raise SpecError("/privacy/epsilon/until", "must be reliable")


def _check_until(spec: JobSpec) -> None:
    """Refuse rounds without a condition to end, and conditions that contradict the budget."""
    rounds = getattr(spec.sampler, "rounds", None)
    _check_count("/sampler/rounds", rounds, 1, MOST_ROUNDS)
    if isinstance(spec.privacy.epsilon, UpTo):
        if spec.spend == "all":
            message = "goes on whatever the result is: leave it out, or give epsilon as a number"
            raise SpecError("/spend", message)
    elif rounds is not None and spec.privacy.epsilon is not None:
        raise SpecError("/sampler/rounds", f"needs an epsilon of {UNTIL}")


def _check_proposal(proposal: Proposal | ComponentProposal) -> None:
    """Refuse proposal scales out of range."""
    _check_number("/sampler/proposal/scale", proposal.scale, 1e-60, 1e3)
    _check_number("/sampler/proposal/stretch", proposal.stretch, 1.0, MOST_STRETCH)


def _check_options(model: ModelSpec) -> None:
    """Refuse options of another family, and numbers out of range."""
    known = MODELS[model.family].options
    for option in fields(model.options):
        value, pointer = getattr(model.options, option.name), f"/model/options/{option.name}"
        if value is not None and option.name not in known:
            raise SpecError(pointer, f"does not belong to {model.family}")
        if option.name in ("a", "b", "m"):
            _check_number(pointer, value, -1e6, 1e6)
        elif option.name in ("ratio_slope", "noise_scale"):
            _check_number(pointer, value, 1e-9, 1e9)
    for number in model.options.variances or ():
        _check_number("/model/options/variances", number, 1e-12, 1e12)


def _check_number(pointer: str, value: float | None, least: float, most: float) -> None:
    """Refuse a value outside [least, most], or NaN."""
    if value is None:
        return
    if not is_number(value) or not least <= value <= most:
        raise SpecError(pointer, f"must be between {least:g} and {most:g}")


def _check_count(pointer: str, value: int | None, least: int, most: int) -> None:
    """Refuse a whole number outside [least, most]."""
    if value is not None and (type(value) is not int or not least <= value <= most):
        raise SpecError(pointer, f"must be a whole number between {least} and {most}")


def check_length(design: Design, spec: JobSpec) -> None:
    """Refuse chains with too many numbers, and a warm-up that leaves no draw."""
    options, d = spec.sampler, len(MODELS[spec.model.family].parameters(design, spec.model))
    steps, chains = options.num_steps or 1, options.num_chains or 1
    warmup = options.num_warmup
    if warmup is not None and options.num_steps is not None and warmup >= steps:
        raise SpecError("/sampler/num_warmup", "must be below num_steps")
    if steps * chains * d > MAX_NUMBERS:
        raise SpecError("/sampler/num_steps", f"more than {MAX_NUMBERS} numbers in the chain")


def check_size(design: Design, spec: JobSpec) -> None:
    """Refuse jobs that would take a worker too long or too much memory."""
    check_length(design, spec)
    if seconds(design, spec) > MOST_SECONDS:
        raise SpecError("/sampler/num_steps", f"would run for more than {MOST_SECONDS:g} seconds")
