"""What is registered, and the price list of mechanisms."""

import inspect
import sys
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import TypeAdapter

from app.api.auth import Analyst, Anyone, House, Planning
from app.api.bodies import describe, read
from app.api.endpoints import Route, in_thread
from app.api.schemas import (
    ComposeIn,
    Listing,
    NoiseIn,
    NoiseOut,
    RegisteredOut,
    StatisticChoiceIn,
    StatisticChoiceOut,
    StepsIn,
    StepsOut,
)
from app.api.waiting import answered
from app.services.budgets.quotes import quoted
from app.services.errors import Fault, invalid
from app.services.planning.calls import chosen
from app.services.planning.plans import public_facts
from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.planner.select import automatic
from dpmcmc.privacy import accountant
from dpmcmc.privacy.affordable import noise_for_epsilon, steps_for_epsilon
from dpmcmc.privacy.events import Gaussian, Repeat
from dpmcmc.releases import RELEASES
from dpmcmc.samplers.algorithms import ALGORITHMS

router = APIRouter(prefix="/v1", route_class=Route)


def _description(thing: object) -> str:
    return (inspect.getdoc(thing) or "").strip()


def _module_of(name: str) -> object:
    """Return the module that implements an algorithm, which has the algorithm's name."""
    package = "releases" if name in RELEASES else "samplers"
    return sys.modules[f"dpmcmc.{package}.{name}"]


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "additionalProperties": False}


def _with_algorithm(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an algorithm's options with `algorithm` required."""
    return {**schema, "required": sorted({*schema.get("required", []), "algorithm"})}


@router.get("/models", tags=["catalogue"])
def models(_: Anyone) -> Listing[RegisteredOut]:
    """The registered models. options: the schema of a job's `model`."""
    schema = _strict(TypeAdapter(ModelSpec).json_schema())
    every = schema["$defs"]["ModelOptions"]
    items = []
    for name, model in MODELS.items():
        fixed = {**schema["properties"], "family": {"const": name}}
        known = {key: option for key, option in every["properties"].items() if key in model.options}
        own = _strict({**every, "properties": known, "required": sorted(model.needed)})
        options = {**schema, "properties": fixed, "$defs": {**schema["$defs"], "ModelOptions": own}}
        if model.needed:
            options["required"] = [*schema["required"], "options"]
        items.append(
            RegisteredOut(
                name=name,
                description=_description(inspect.getmodule(model.check)),
                automatic=model.rows(model.example.options) is not None,
                options=options,
            )
        )
    return Listing(items=items, next_cursor=None)


@router.get("/samplers", tags=["catalogue"])
def samplers(_: Anyone) -> Listing[RegisteredOut]:
    """The registered samplers and releases. options: the schema of a job's `sampler`."""
    items = [
        RegisteredOut(
            name=name,
            description=_description(_module_of(name)),
            automatic=automatic(name),
            options=_with_algorithm(_strict(TypeAdapter(sampler.options).json_schema())),
        )
        for name, sampler in ALGORITHMS.items()
    ]
    return Listing(items=items, next_cursor=None)


@router.post("/accounting/compose", tags=["accounting"], openapi_extra=describe(ComposeIn))
async def compose(
    caller: Anyone,
    planners: Planning,
    request: Request,
    body: Annotated[ComposeIn, Depends(read(ComposeIn))],
) -> dict[str, Any]:
    """What mechanisms one after the other cost at delta, in every notion."""
    ticket = planners.ask(str(caller.id), quoted, tuple(body.events), body.delta)
    made: dict[str, Any] | Fault = await answered(request, ticket)
    if isinstance(made, Fault):
        raise invalid(made.pointer, made.message)
    return made


@router.post("/accounting/noise", tags=["accounting"], openapi_extra=describe(NoiseIn))
def noise(_: Anyone, body: Annotated[NoiseIn, Depends(read(NoiseIn))]) -> NoiseOut:
    """The noise for an epsilon: the least with which so many Gaussian steps cost no more."""
    try:
        z = noise_for_epsilon(body.epsilon, body.delta, body.num_steps)
    except SpecError as error:
        raise invalid(error.pointer, error.message) from None
    event = Repeat(Gaussian(z), body.num_steps)
    return NoiseOut(
        noise_multiplier=z,
        epsilon=accountant.epsilon(event, body.delta),
        delta=body.delta,
        mu=accountant.gdp_mu(event),
    )


@router.post("/accounting/steps", tags=["accounting"], openapi_extra=describe(StepsIn))
def steps(_: Anyone, body: Annotated[StepsIn, Depends(read(StepsIn))]) -> StepsOut:
    """The steps for an epsilon: as many as it pays for with this noise, or 0."""
    try:
        count = steps_for_epsilon(
            body.epsilon,
            body.delta,
            body.noise_multiplier,
            gradient_noise_multiplier=body.gradient_noise_multiplier,
            num_leapfrog=body.num_leapfrog,
        )
    except SpecError as error:
        raise invalid(error.pointer, error.message) from None
    return StepsOut(num_steps=count)


@router.post(
    "/accounting/statistic", tags=["accounting"], openapi_extra=describe(StatisticChoiceIn)
)
async def statistic(
    caller: Analyst,
    services: House,
    planners: Planning,
    request: Request,
    body: Annotated[StatisticChoiceIn, Depends(read(StatisticChoiceIn))],
) -> StatisticChoiceOut:
    """Which power of a column to release, by Fisher information. From public facts, free."""
    schema = await in_thread(public_facts, services, caller, body.dataset)
    asked = body.model_dump(exclude={"dataset", "statistic", "family", "options"})
    asked["kind"] = body.statistic
    ticket = planners.ask(str(caller.id), chosen, schema, body.family, body.options, asked)
    made: dict[str, Any] | Fault = await answered(request, ticket)
    if isinstance(made, Fault):
        raise invalid(made.pointer, made.message)
    return StatisticChoiceOut.model_validate(made)
