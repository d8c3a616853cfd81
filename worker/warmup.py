"""Load the compiled kernels before the first job, by running tiny ones on made-up rows."""

from dataclasses import replace

from dpmcmc.diagnostics import summarise
from dpmcmc.privacy.types import Released
from dpmcmc.run import sample
from dpmcmc.samplers import SAMPLERS
from dpmcmc.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.spec import ModelSpec, PrivacySpec

ROWS = 8
SCHEMA = Schema(
    columns=(
        NumberColumn(name="x", lower=-1.0, upper=1.0),
        BinaryColumn(name="y", categories=("0", "1")),
    ),
    rows=ROWS,
)
DATA: dict[str, list[object]] = {"x": [0.5] * ROWS, "y": ["0", "1"] * (ROWS // 2)}


def warm_up() -> None:
    """Run every registered sampler for a few steps, and summarise what it gave."""
    model = ModelSpec(family="logistic", formula="y ~ x")
    privacy = PrivacySpec(delta=1e-6, noise_multiplier=1.0)
    for sampler in SAMPLERS.values():
        options = sampler.options(num_steps=8, num_chains=2)
        kinds = {type(options.proposal)(), *_full(options.proposal)}
        for proposal in kinds:
            result = sample(
                DATA,
                schema=SCHEMA,
                model=model,
                privacy=privacy,
                sampler=replace(options, proposal=proposal),
            )
            summarise(Released(result.draws), result.plan.parameters)


def _full(proposal: object) -> list[object]:
    """The full-vector proposal, where there is one."""
    try:
        return [type(proposal)(kind="full")]  # type: ignore[call-arg]
    except TypeError:
        return []
