"""Forms from JSON schemas, and JSON from forms: what an algorithm can be asked for."""

import json
from dataclasses import dataclass
from typing import Any

from dpmcmc_service.web.inside import Json, RefusedError

PREFIX = "option."  # of a form's fields that are options of the algorithm
NUMBERS = {"integer": int, "number": float}


class NotReadError(Exception):
    """A field that is not what its option takes. pointer: of the job's body."""

    def __init__(self, pointer: str, message: str) -> None:
        self.pointer, self.message = pointer, message
        super().__init__(message)


@dataclass(frozen=True)
class Field:
    """One option as a form shows it. kind: integer, number, boolean, choice, text or json."""

    name: str
    kind: str
    choices: tuple[str, ...] = ()
    default: str = ""
    optional: bool = True

    @property
    def key(self) -> str:
        """Its name in the form."""
        return PREFIX + self.name

    @property
    def label(self) -> str:
        """Its name in words."""
        return self.name.replace("_", " ")


def fields(schema: Json) -> list[Field]:
    """Return the fields of an algorithm's options, `algorithm` left out."""
    wanted = {name: one for name, one in schema["properties"].items() if name != "algorithm"}
    return [_field(name, one) for name, one in wanted.items()]


def _field(name: str, schema: Json) -> Field:
    several = schema.get("anyOf", [schema])
    kinds = [one for one in several if one.get("type") != "null"]
    told = schema.get("default")
    default = "" if told is None or isinstance(told, dict | list) else json.dumps(told)
    if len(kinds) != 1 or "$ref" in kinds[0]:
        return Field(name, "json")
    (one,) = kinds
    if "enum" in one:
        return Field(name, "choice", tuple(map(str, one["enum"])), str(told or ""))
    kind = one.get("type", "json")
    if kind == "string":
        return Field(name, "text", default=str(told or ""))
    return Field(name, kind if kind in (*NUMBERS, "boolean") else "json", default=default)


def options(schema: Json, form: dict[str, str]) -> Json:
    """Return the options that a form fills. Empty fields are left out. Raises NotReadError."""
    found: Json = {}
    for field in fields(schema):
        written = form.get(field.key, "").strip()
        if written:
            found[field.name] = _read(field, written)
    return found


def _read(field: Field, written: str) -> Any:
    if field.kind in ("choice", "text"):
        return written
    if field.kind == "boolean":
        return written == "true"
    try:
        if field.kind in NUMBERS:
            return NUMBERS[field.kind](written)
        return json.loads(written)
    except ValueError:
        what = {"integer": "a whole number", "number": "a number"}.get(field.kind, "JSON")
        raise NotReadError(f"/sampler/{field.name}", f"must be {what}") from None


def number(form: dict[str, str], name: str, pointer: str) -> float | None:
    """Return a number of a form, None where it is empty. Raises NotReadError."""
    written = form.get(name, "").strip()
    if not written:
        return None
    try:
        return float(written)
    except ValueError:
        raise NotReadError(pointer, "must be a number") from None


def job(form: dict[str, str], schemas: dict[str, Json]) -> Json:
    """Return the body of a job from its form. schemas: of options, by algorithm.

    Raises NotReadError on what is no number; all else is for the API to judge.
    """
    model: Json = {"family": form.get("family", ""), "formula": form.get("formula", "")}
    scale = number(form, "prior_scale", "/model/prior/scale")
    if scale is not None:
        model["prior"] = {"kind": "normal", "scale": scale}
    dispersion = number(form, "dispersion", "/model/options/dispersion")
    if dispersion is not None:
        model["options"] = {"dispersion": dispersion}
    privacy = {
        "epsilon": number(form, "epsilon", "/privacy/epsilon"),
        "delta": number(form, "delta", "/privacy/delta"),
    }
    body: Json = {
        "dataset": form.get("dataset", ""),
        "model": model,
        "privacy": {name: value for name, value in privacy.items() if value is not None},
    }
    algorithm = form.get("algorithm", "")
    if algorithm in schemas:
        body["sampler"] = {"algorithm": algorithm, **options(schemas[algorithm], form)}
    if form.get("accept_low_quality") == "true":
        body["accept_low_quality"] = True
    return body


def filled(job: Json) -> dict[str, str]:
    """Return the form of a job like an earlier one. job: the API's answer on it."""
    spec = job["spec"]
    found = {
        "dataset": job["dataset"],
        "family": spec["model"]["family"],
        "formula": spec["model"]["formula"],
        "delta": str(spec["privacy"]["delta"]),
        "epsilon": str(spec["privacy"].get("epsilon") or f"{job['cost']['epsilon']:.6g}"),
    }
    if not job["reasons"]:
        found["algorithm"] = job["algorithm"]
    dispersion = (spec["model"].get("options") or {}).get("dispersion")
    return found | ({"dispersion": str(dispersion)} if dispersion is not None else {})


def question(form: dict[str, str], columns: list[Json]) -> Json:
    """Return the body of a question to a stored release. columns: of the dataset.

    Fields are loc.NAME and scale.NAME of a parameter's prior, and at.NAME of a covariate.
    Raises NotReadError on what is no number.
    """
    body: Json = {"prior": {}}
    for key in form:
        kind, _, name = key.partition(".")
        if kind == "scale" and form[key].strip():
            pointer = f"/prior/{name}"
            loc = number(form, f"loc.{name}", f"{pointer}/loc")
            scale = number(form, key, f"{pointer}/scale")
            body["prior"][name] = {"kind": "normal", "loc": loc or 0.0, "scale": scale}
    setting: Json = {}
    for column in columns:
        name = column["name"]
        if not form.get(f"at.{name}", "").strip():
            continue
        plain = column["type"] == "number"
        at = f"/given/0/{name}"
        setting[name] = number(form, f"at.{name}", at) if plain else form[f"at.{name}"]
    return body | ({"given": [setting]} if setting else {})


def problem_of(error: NotReadError | RefusedError) -> Json:
    """Return what is wrong in words: a sentence, and what is wrong with which field."""
    if isinstance(error, NotReadError):
        return {"told": "", "faults": [{"pointer": error.pointer, "message": error.message}]}
    told = "" if error.faults and error.code == "invalid_request" else str(error)
    return {"told": told, "faults": error.faults, "code": error.code}
