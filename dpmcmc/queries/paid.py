"""The cost of one Gaussian mechanism, and access to the rows once it is paid."""

from dataclasses import dataclass

from dpmcmc.base.errors import SpecError, is_number
from dpmcmc.base.plain import plain
from dpmcmc.base.private import Neighbouring, Permit, PermitError, Private
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import PrivacySpec, UpTo
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.planner import Cost
from dpmcmc.planner.resolve import ROUND_UP
from dpmcmc.privacy import accountant
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Event, Gaussian, of_units
from dpmcmc.privacy.sites import LEAST_MULTIPLIER, MOST_MULTIPLIER

ONE_ROW = "persons have several rows here, and {} are of one row of each: ask for max_rows 1"
A_NUMBER = "must be a number here: only a regression goes on until its result is reliable"


@dataclass(frozen=True, slots=True)
class Paid:
    """A mechanism with its cost, from public facts. event: the one that a permit must be for."""

    noise_multiplier: float
    event: Event
    cost: Cost


def settled(schema: Schema, privacy: PrivacySpec) -> Paid:
    """Return the Gaussian mechanism that costs this much. Raises SpecError where none does."""
    privacy = plain(privacy)
    if schema.neighbouring is not Neighbouring.REPLACE_ONE:
        raise SpecError("/neighbouring", "counts are released under replace_one only")
    if schema.rows < 1:
        raise SpecError("/rows", "there is no row to count")
    z = _multiplier(privacy, schema.unit_rows)
    if not LEAST_MULTIPLIER <= z <= MOST_MULTIPLIER:
        raise SpecError("/privacy", f"leads to a noise multiplier of {z:.3g}, which is refused")
    event = of_units(Gaussian(z), schema.unit_rows)
    epsilon = accountant.epsilon(event, privacy.delta)
    if not epsilon > 0.0:
        raise SpecError("/privacy/noise_multiplier", "costs epsilon 0: ask for less noise")
    return Paid(z, event, Cost(epsilon, privacy.delta, accountant.gdp_mu(event)))


def _multiplier(privacy: PrivacySpec, unit_rows: int) -> float:
    """Return the noise multiplier of a budget."""
    if (privacy.epsilon is None) == (privacy.noise_multiplier is None):
        raise SpecError("/privacy", "needs one of epsilon and noise_multiplier")
    for name in ("epsilon", "delta", "noise_multiplier"):
        value = getattr(privacy, name)
        if value is not None and not is_number(value):
            message = A_NUMBER if isinstance(value, UpTo) else "must be a number"
            raise SpecError(f"/privacy/{name}", message)
    if privacy.noise_multiplier is not None:
        return privacy.noise_multiplier
    try:
        z = accountant.noise_multiplier_for(privacy.most or 0.0, privacy.delta, 1)
    except ValueError as error:
        raise SpecError("/privacy", "epsilon must be above 0, delta from 1e-300 to 1") from error
    return z if unit_rows == 1 else z * unit_rows * ROUND_UP


def opened(paid: Paid, rows: Private[AnyRows], permit: Permit, schema: Schema) -> AnyRows:
    """Return the rows, opened by the permit.

    Raises PermitError where the permit is for another event or dataset.
    """
    if permit.event_digest != digest(paid.event):
        raise PermitError("the permit was made for another event")
    return rows.open(permit).within(schema)
