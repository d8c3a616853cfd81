"""Forms from JSON schemas, and JSON from forms: what an algorithm can be asked for."""

import json
from dataclasses import dataclass
from typing import Any

from app.web.inside import Json, RefusedError

SAMPLER, MODEL = "option.", "model."  # of a form's fields: options of the algorithm, of the model
NUMBERS = {"integer": int, "number": float}
SAID = {"integer": "a whole number", "number": "a number", "array": "numbers between commas"}
APART = ("family", "formula", "prior", "options")  # of a model, with fields of their own
FAMILIES = {"binary": "logistic", "category": "multinomial", "number": "linear"}


class NotReadError(Exception):
    """A field that is not what its option takes. pointer: of the job's body."""

    def __init__(self, pointer: str, message: str) -> None:
        self.pointer, self.message = pointer, message
        super().__init__(message)


@dataclass(frozen=True)
class Field:
    """One option as a form shows it. kind: integer, number, boolean, array, choice, text or json.

    prefix: of its name in the form.
    """

    prefix: str
    name: str
    kind: str
    choices: tuple[str, ...] = ()
    default: str = ""

    @property
    def key(self) -> str:
        """Its name in the form."""
        return self.prefix + self.name

    @property
    def label(self) -> str:
        """Its name in words."""
        return self.name.replace("_", " ").replace(".", ": ")


def fields(schema: Json) -> list[Field]:
    """Return the fields of an algorithm's options, `algorithm` left out."""
    wanted = {name: one for name, one in schema["properties"].items() if name != "algorithm"}
    return _fields(SAMPLER, wanted, schema.get("$defs", {}))


def model_fields(schema: Json) -> list[Field]:
    """Return the fields of a family: its options, and what each model may have."""
    own = schema["$defs"]["ModelOptions"]["properties"]
    shared = {name: one for name, one in schema["properties"].items() if name not in APART}
    return _fields(MODEL, own | shared, schema["$defs"])


def _fields(prefix: str, wanted: Json, known: Json) -> list[Field]:
    """Return fields; an option with parts of its own has one for each: `proposal.scale`."""
    found = []
    for name, schema in wanted.items():
        kinds = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
        part = known.get(kinds[0].get("$ref", "").rsplit("/", 1)[-1]) if len(kinds) == 1 else None
        if part and "properties" in part:
            inner = {f"{name}.{own}": one for own, one in part["properties"].items()}
            found += _fields(prefix, inner, known)
        else:
            found.append(_field(prefix, name, kinds, schema.get("default")))
    return found


def _field(prefix: str, name: str, kinds: list[Json], told: Any) -> Field:
    default = "" if told is None or isinstance(told, dict | list) else json.dumps(told)
    if len(kinds) != 1:
        return Field(prefix, name, "json")
    (one,) = kinds
    if "enum" in one or "const" in one:
        choices = one.get("enum") or [one["const"]]
        return Field(prefix, name, "choice", tuple(map(str, choices)), str(told or ""))
    kind = one.get("type", "json")
    if kind == "string":
        return Field(prefix, name, "text", default=str(told or ""))
    known = (*NUMBERS, "boolean", "array")
    return Field(prefix, name, kind if kind in known else "json", default=default)


def options(found: list[Field], form: dict[str, str], pointer: str) -> Json:
    """Return what fields are filled with. Empty ones are left out. Raises NotReadError."""
    told: Json = {}
    for field in found:
        written = form.get(field.key, "").strip()
        if written:
            *parts, last = field.name.split(".")
            place = told
            for part in parts:
                place = place.setdefault(part, {})
            place[last] = _read(field, written, pointer)
    return told


def _read(field: Field, written: str, pointer: str) -> Any:
    if field.kind in ("choice", "text"):
        return written
    if field.kind == "boolean":
        return written == "true"
    try:
        if field.kind in NUMBERS:
            return NUMBERS[field.kind](written)
        if field.kind == "array":
            return [float(part) for part in written.strip("[]").split(",")]
        return json.loads(written)
    except ValueError:
        raise NotReadError(
            f"{pointer}/{field.name.replace('.', '/')}", f"must be {SAID.get(field.kind, 'JSON')}"
        ) from None


def number(form: dict[str, str], name: str, pointer: str) -> float | None:
    """Return a number of a form, None where it is empty. Raises NotReadError."""
    written = form.get(name, "").strip()
    if not written:
        return None
    try:
        return float(written)
    except ValueError:
        raise NotReadError(pointer, "must be a number") from None


def whole(form: dict[str, str], name: str, pointer: str) -> int | None:
    """Return a whole number of a form, None where it is empty. Raises NotReadError."""
    value = number(form, name, pointer)
    if value is not None and not value.is_integer():
        raise NotReadError(pointer, "must be a whole number")
    return None if value is None else int(value)


def family_of(form: dict[str, str], columns: list[Json]) -> str:
    """Return the chosen family; where none was, the one that the response's column asks for."""
    response = form.get("formula", "").partition("~")[0].strip()
    kinds = {one["name"]: one["type"] for one in columns}
    return form.get("family") or FAMILIES.get(kinds.get(response, ""), "linear")


def job(form: dict[str, str], dataset: Json, models: Json, samplers: Json) -> Json:
    """Return the body of a job from its form. models, samplers: schemas of their options, by name.

    Raises NotReadError on what is no number; all else is for the API to judge.
    """
    model: Json = {
        "family": family_of(form, dataset["columns"]),
        "formula": form.get("formula", ""),
    }
    if prior := _prior(form):
        model["prior"] = prior
    if model["family"] in models:
        schema = models[model["family"]]
        own = schema["$defs"]["ModelOptions"]["properties"]
        for name, value in options(model_fields(schema), form, "/model").items():
            (model.setdefault("options", {}) if name in own else model)[name] = value
    delta = number(form, "delta", "/privacy/delta")
    privacy = {
        "epsilon": number(form, "epsilon", "/privacy/epsilon"),
        "delta": dataset["privacy"]["delta"] if delta is None else delta,
    }
    privacy["max_rows"] = whole(form, "max_rows", "/privacy/max_rows")
    body: Json = {
        "dataset": dataset["id"],
        "model": model,
        "privacy": {name: value for name, value in privacy.items() if value is not None},
    }
    algorithm = form.get("algorithm", "")
    if algorithm in samplers:
        chosen = options(fields(samplers[algorithm]), form, "/sampler")
        body["sampler"] = {"algorithm": algorithm, **chosen}
    if form.get("accept_low_quality") == "true":
        body["accept_low_quality"] = True
    if form.get("spend") == "all":
        body["spend"] = "all"
    return body


def _prior(form: dict[str, str]) -> Json | None:
    """Return one prior of all coefficients, or those of single ones: `name, mean, sd` in lines."""
    scale = number(form, "prior_scale", "/model/prior/scale")
    lines = [line for line in form.get("priors", "").splitlines() if line.strip()]
    if not lines:
        return None if scale is None else {"kind": "normal", "scale": scale}
    if scale is not None:
        raise NotReadError("/model/prior", "say one sd for all, or lines for single ones: not both")
    found: Json = {}
    for line in lines:
        name, *numbers = (part.strip() for part in line.rsplit(",", 2))
        if len(numbers) != 2:
            raise NotReadError("/model/prior", f"{line.strip()!r}: write name, mean, sd")
        loc, sd = (number({"": one}, "", f"/model/prior/{name}") or 0.0 for one in numbers)
        found[name] = {"kind": "normal", "loc": loc, "scale": sd}
    return found


def filled(job: Json) -> dict[str, str]:
    """Return the form of a job that is asked for as an earlier one was: the API's answer."""
    asked = job["submitted"]
    model, sampler = asked["model"], asked["sampler"] or {}
    found = paid(job) | {
        "family": model["family"],
        "formula": model["formula"],
        "algorithm": sampler.get("algorithm", ""),
        "spend": asked.get("spend", ""),
    }
    prior = model.get("prior") or {}
    if prior.get("kind") == "normal" and not prior.get("loc"):
        found["prior_scale"] = str(prior["scale"])
    elif prior:
        lines = (f"{name}, {one['loc']:g}, {one['scale']:g}" for name, one in prior.items())
        found["priors"] = "\n".join(lines)
    shared = {name: model.get(name) for name in model if name not in APART}
    for prefix, told in ((MODEL, (model.get("options") or {}) | shared), (SAMPLER, sampler)):
        found |= {prefix + name: word for name, word in _written(told).items()}
    return found


def paid(job: Json) -> dict[str, str]:
    """Return the fields that say on what an earlier job was run, and what it might cost."""
    privacy = job["submitted"]["privacy"]
    return {
        "dataset": job["dataset"],
        "delta": str(privacy["delta"]),
        "epsilon": str(privacy.get("epsilon") or f"{job['cost']['epsilon']:.6g}"),
        "max_rows": str(privacy.get("max_rows") or ""),
    }


def _written(told: Json) -> dict[str, str]:
    """Return options as their fields show them, `algorithm` left out."""
    found: dict[str, str] = {}
    for name, value in told.items():
        if isinstance(value, dict):
            found |= {f"{name}.{part}": word for part, word in _written(value).items()}
        elif value is not None and name != "algorithm":
            found[name] = value if isinstance(value, str) else json.dumps(value).strip("[]")
    return found


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
    left = error.problem.get("remaining", {}).get("epsilon")
    if left is not None:
        told += f" Left for one job is ε {left:.4g}."
    return {"told": told, "faults": error.faults, "code": error.code}
