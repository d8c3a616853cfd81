"""A request as JSON: a table's public facts, and a job. And what becomes of it."""

import json
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.run import run
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema, Table
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.planner import Plan, event, plan
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.algorithms import ALGORITHMS

COLUMN: Any = TypeAdapter(NumberColumn | BinaryColumn | CategoryColumn)


@cache
def adapter(kind: type[Any]) -> Any:
    """Return what turns JSON into such a dataclass, as strictly as the API does."""
    return TypeAdapter(kind)


@dataclass(frozen=True)
class Request:
    """columns, job: as JSON has them. rows: of the table."""

    columns: tuple[dict[str, Any], ...]
    rows: int
    job: dict[str, Any]

    def as_json(self) -> str:
        """All that it takes to see a finding again: no seed is part of it."""
        return json.dumps({"columns": list(self.columns), "rows": self.rows, **self.job})

    def schema(self) -> Schema:
        columns = tuple(COLUMN.validate_python(column) for column in self.columns)
        return Schema(columns=columns, rows=self.rows)

    def spec(self) -> JobSpec:
        """Raises SpecError where a part does not have its declared type."""
        options = ALGORITHMS[self.job["sampler"]["algorithm"]].options
        parts = {"model": ModelSpec, "sampler": options, "privacy": PrivacySpec}
        try:
            made = {
                name: adapter(kind).validate_json(json.dumps(self.job[name]), strict=True)
                for name, kind in parts.items()
            }
        except (ValidationError, ValueError) as error:
            raise SpecError("/", str(error)) from None
        return JobSpec(**made)

    def plan(self) -> Plan:
        """Raises SpecError where the request is refused."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return plan(self.schema(), self.spec(), advise=False)


def from_json(text: str) -> Request:
    """Return the request that `as_json` wrote."""
    found = json.loads(text)
    columns, rows = found.pop("columns"), found.pop("rows")
    return Request(tuple(columns), rows, found)


def shortened(spec: JobSpec, steps: int) -> JobSpec:
    """Return a resolved job that stops after so many steps: the noise of each is as before."""
    options: Any = spec.sampler
    count = min(options.num_steps or 1, steps)
    return replace(spec, sampler=replace(options, num_steps=count, num_warmup=0))


def event_of(schema: Schema, spec: JobSpec) -> Event:
    """Return what a resolved job is charged for."""
    return event(schema, spec)


def draws_of(
    schema: Schema,
    spec: JobSpec,
    table: Table,
    random: RandomSource | None = None,
    paid: str | None = None,
) -> Any:
    """Run a resolved job as a worker does. Returns all that is released: (chain, draw, d).

    paid: digest of its event, where that is known already.
    """
    permit = Permit(subject="audit", event_digest=paid or digest(event(schema, spec)))
    blocks = run(schema, spec, Private(table, subject="audit"), permit, random=random)
    return np.concatenate([block.value for block in blocks], axis=1)


def corners(schema: Schema, choose: np.random.Generator) -> Table:
    """Return rows of which every value lies at an end of what is declared."""
    columns: dict[str, Any] = {}
    for column in schema.columns:
        side = choose.integers(0, 2, schema.rows)
        if isinstance(column, NumberColumn):
            columns[column.name] = np.where(side == 1, column.upper, column.lower)
        else:
            columns[column.name] = np.where(side == 1, len(column.categories) - 1, 0).astype(
                np.int32
            )
    return Table(columns=columns, rows=schema.rows)


def replaced(table: Table, schema: Schema, row: dict[str, int]) -> Table:
    """Return the table with its first row replaced. row: 1 for the upper end of a column, 0 for
    the lower."""
    columns = {name: values.copy() for name, values in table.columns.items()}
    for column in schema.columns:
        if isinstance(column, NumberColumn):
            columns[column.name][0] = (column.lower, column.upper)[row[column.name]]
        else:
            columns[column.name][0] = (0, len(column.categories) - 1)[row[column.name]]
    return Table(columns=columns, rows=table.rows)
