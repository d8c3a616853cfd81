"""Forms from JSON schemas, and JSON from forms: what an algorithm can be asked for."""

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from app.web.inside import Json, RefusedError

SAMPLER, MODEL = "option.", "model."  # of a form's fields: options of the algorithm, of the model
NUMBERS = {"integer": int, "number": float}
SAID = {"integer": "a whole number", "number": "a number", "array": "numbers between commas"}
APART = ("family", "formula", "prior", "options")  # of a model, with fields of their own
LABELS = ("name", "note")  # of a job, for people
# as dpmcmc.client.asked, which pages do not read
OF_TWO_COLUMNS = re.compile(r"[^~]*\||\s*(?:[sS]urv|cbind)\s*\([^~]*~")
FAMILIES = {"binary": "logistic", "category": "multinomial", "number": "linear"}


class NotReadError(Exception):
    """A field that is not what its option takes. pointer: of the job's body."""

    def __init__(self, pointer: str, message: str) -> None:
        self.pointer, self.message = pointer, message
        super().__init__(message)


@dataclass(frozen=True)
class Field:
    """One option as a form shows it. kind: integer, number, boolean, array, choice, text or json.

    prefix: of its name in the form. needed: whether there is no job without it.
    """

    prefix: str
    name: str
    kind: str
    choices: tuple[str, ...] = ()
    default: str = ""
    needed: bool = False

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
    wanted = {name: member for name, member in schema["properties"].items() if name != "algorithm"}
    return _fields(SAMPLER, wanted, schema.get("$defs", {}))


def model_fields(schema: Json) -> list[Field]:
    """Return the fields of a family: its options, and what each model may have."""
    own = schema["$defs"]["ModelOptions"]
    shared = {name: member for name, member in schema["properties"].items() if name not in APART}
    needed = own.get("required", [])
    fields = _fields(MODEL, own["properties"] | shared, schema["$defs"])
    return [replace(field, needed=field.name in needed) for field in fields]


def _fields(prefix: str, wanted: Json, known: Json) -> list[Field]:
    """Return fields; an option with parts of its own has one for each: `proposal.scale`."""
    fields = []
    for name, schema in wanted.items():
        kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
        part = known.get(kinds[0].get("$ref", "").rsplit("/", 1)[-1]) if len(kinds) == 1 else None
        if part and "properties" in part:
            inner = {f"{name}.{own}": member for own, member in part["properties"].items()}
            fields += _fields(prefix, inner, known)
        else:
            fields.append(_field(prefix, name, kinds, schema.get("default")))
    return fields


def _field(prefix: str, name: str, kinds: list[Json], value: Any) -> Field:
    default = "" if value is None or isinstance(value, dict | list) else json.dumps(value)
    if len(kinds) != 1:
        return Field(prefix, name, "json")
    (schema,) = kinds
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum") or [schema["const"]]
        return Field(prefix, name, "choice", tuple(map(str, choices)), str(value or ""))
    kind = schema.get("type", "json")
    if kind == "string":
        return Field(prefix, name, "text", default=str(value or ""))
    known = (*NUMBERS, "boolean", "array")
    return Field(prefix, name, kind if kind in known else "json", default=default)


def options(fields: list[Field], form: dict[str, str], pointer: str) -> Json:
    """Return what fields are filled with. Empty ones are left out. Raises NotReadError."""
    members: Json = {}
    for field in fields:
        written = form.get(field.key, "").strip()
        if written:
            *parts, last = field.name.split(".")
            inner = members
            for part in parts:
                inner = inner.setdefault(part, {})
            inner[last] = _read(field, written, pointer)
    return members


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


def reason_of(form: dict[str, str]) -> str | None:
    """The reason that was given; None where none was asked for yet. Raises NotReadError."""
    if "reason" not in form:
        return None
    if not form["reason"].strip():
        raise NotReadError("/reason", "say why: it is kept in the ledger and the audit trail")
    return form["reason"].strip()


def whole(form: dict[str, str], name: str, pointer: str) -> int | None:
    """Return a whole number of a form, None where it is empty. Raises NotReadError."""
    value = number(form, name, pointer)
    if value is not None and not value.is_integer():
        raise NotReadError(pointer, "must be a whole number")
    return None if value is None else int(value)


def family_of(form: dict[str, str], columns: list[Json]) -> str | None:
    """Return the chosen family; where none was, the one that the response's column asks for.

    None where the response's form says it, as surv(time, event) does: the API reads that.
    """
    if not form.get("family") and OF_TWO_COLUMNS.match(form.get("formula", "")):
        return None
    response = form.get("formula", "").partition("~")[0].strip()
    kinds = {column["name"]: column["type"] for column in columns}
    return form.get("family") or FAMILIES.get(kinds.get(response, ""), "linear")


def job(form: dict[str, str], dataset: Json, models: Json, samplers: Json) -> Json:
    """Return the body of a job from its form. models, samplers: schemas of their options, by name.

    Raises NotReadError on what is no number; all else is for the API to judge.
    """
    model: Json = {"formula": form.get("formula", "")}
    if family := family_of(form, dataset["columns"]):
        model["family"] = family
    if prior := _prior(form):
        model["prior"] = prior
    if family in models:
        schema = models[family]
        own = schema["$defs"]["ModelOptions"]["properties"]
        for name, value in options(model_fields(schema), form, "/model").items():
            (model.setdefault("options", {}) if name in own else model)[name] = value
    delta = number(form, "delta", "/privacy/delta")
    epsilon = number(form, "epsilon", "/privacy/epsilon")
    until = form.get("until") == "reliable" and epsilon is not None
    privacy = {
        "epsilon": {"up_to": epsilon, "until": "reliable"} if until else epsilon,
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
    if form.get("dry_run") == "true":
        body["dry_run"] = True
    if form.get("spend") == "all":
        body["spend"] = "all"
    return body | labels(form)


def labels(form: dict[str, str]) -> Json:
    """Return the name and the note of a job, as far as they were given."""
    given = {name: form.get(name, "").replace("\r\n", "\n").strip() for name in LABELS}
    return {name: text for name, text in given.items() if text}


def _prior(form: dict[str, str]) -> Json | None:
    """Return one prior of all coefficients, or those of single ones: `name, mean, sd` in lines."""
    scale = number(form, "prior_scale", "/model/prior/scale")
    lines = [line for line in form.get("priors", "").splitlines() if line.strip()]
    if not lines:
        return None if scale is None else {"kind": "normal", "scale": scale}
    if scale is not None:
        raise NotReadError("/model/prior", "give one sd for all, or a line for each, not both")
    prior: Json = {}
    for line in lines:
        name, *numbers = (part.strip() for part in line.rsplit(",", 2))
        if len(numbers) != 2:
            raise NotReadError("/model/prior", f"{line.strip()!r}: write name, mean, sd")
        loc, sd = (number({"": text}, "", f"/model/prior/{name}") or 0.0 for text in numbers)
        prior[name] = {"kind": "normal", "loc": loc, "scale": sd}
    return prior


def filled(job: Json, *, planner: bool = False) -> dict[str, str]:
    """Return the form of a job that is asked for as an earlier one was: the API's answer.

    planner: leave the algorithm to the planner.
    """
    asked = job["submitted"]
    model, sampler = asked["model"], (not planner and asked["sampler"]) or {}
    values = paid(job) | {
        "family": model["family"],
        "formula": model["formula"],
        "algorithm": sampler.get("algorithm", ""),
        "spend": asked.get("spend", ""),
    }
    prior = model.get("prior") or {}
    if prior.get("kind") == "normal" and not prior.get("loc"):
        values["prior_scale"] = str(prior["scale"])
    elif prior:
        lines = (
            f"{name}, {prior_of['loc']:g}, {prior_of['scale']:g}"
            for name, prior_of in prior.items()
        )
        values["priors"] = "\n".join(lines)
    shared = {name: model.get(name) for name in model if name not in APART}
    for prefix, options in ((MODEL, (model.get("options") or {}) | shared), (SAMPLER, sampler)):
        values |= {prefix + name: word for name, word in _written(options).items()}
    return values


def paid(job: Json) -> dict[str, str]:
    """Return the fields that say on what an earlier job was run, and what it might cost."""
    privacy = job["submitted"]["privacy"]
    epsilon, until = privacy.get("epsilon"), ""
    if isinstance(epsilon, dict):
        epsilon, until = epsilon["up_to"], epsilon["until"]
    return {
        "dataset": job["dataset"],
        "delta": str(privacy["delta"]),
        "epsilon": str(epsilon or f"{job['cost']['epsilon']:.6g}"),
        "until": until,
        "max_rows": str(privacy.get("max_rows") or ""),
    }


def _written(options: Json) -> dict[str, str]:
    """Return options as their fields show them, `algorithm` left out."""
    values: dict[str, str] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            values |= {f"{name}.{part}": word for part, word in _written(value).items()}
        elif value is not None and name != "algorithm":
            values[name] = value if isinstance(value, str) else json.dumps(value).strip("[]")
    return values


def question(form: dict[str, str], columns: list[Json]) -> Json:
    """Return the body of a question to a stored release. columns: of the dataset.

    Fields are loc.NAME and scale.NAME of a parameter's prior, at.NAME of a covariate, selecting, a
    prior of all coefficients, and models, a formula a line.
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
    if selecting := form.get("selecting", ""):
        if body["prior"]:
            raise NotReadError("/prior", "is of all coefficients: leave the sds of single ones out")
        body["prior"] = selecting
    if models := [line.strip() for line in form.get("models", "").splitlines() if line.strip()]:
        body["models"] = models
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
    message = "" if error.faults and error.code == "invalid_request" else str(error)
    left = error.problem.get("remaining", {}).get("epsilon")
    if left is not None:
        message += f" Left for one job is ε {left:.4g}."
    return {"told": message, "faults": error.faults, "code": error.code}
