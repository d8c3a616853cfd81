"""Examples of requests and answers for the OpenAPI document, from their schemas.

Of a member that has a name of its own in NAMED the value is written down there; all else follows
from its type, so that an example is never behind its schema.
"""

from typing import Any

from app.api.examples import EXAMPLES

Json = dict[str, Any]
ID, HASH = "4f1c3a52-9d0e-4c7b-8a6f-2b7d5e9c1a30", "9f2c" * 16
PLACE = "#/components/schemas/"
DEEPEST = 12
NAMED: Json = {
    "accepted": True, "algorithm": "noisy_quadratic", "chains": 2, "code": "rows_seen_before",
    "cursor": None, "delta": 1e-6, "description": "Incomes of a census.", "draws": 2000,
    "epsilon": 1.0, "epsilon_after": 1.0, "error": None, "ess_bulk": 3853.0, "ess_tail": 3893.0,
    "expected_ess": 4000.0, "expected_width": 1.05, "expires_at": None, "expired_at": None,
    "family": "logistic", "filename": "rows.csv", "formula": "income ~ age + sex", "grants": None,
    "hash": HASH, "head": HASH, "key": "dpm_…", "label": "laptop", "level": 0.9, "lower": 0.31,
    "mean": 0.42, "median": 0.42, "mu": 0.24, "mu_spent": 0.24, "mu_total": 0.83, "name": "adult",
    "neighbouring": "replace_one", "next_cursor": None, "noise_multiplier": 4.2, "num_chains": 2,
    "num_steps": 2000, "num_warmup": 0, "of": 2000, "parameter": "age", "population": None,
    "previous": HASH, "q05": 0.34, "q25": 0.39, "q50": 0.42, "q75": 0.45, "q95": 0.5,
    "r_hat": 1.001, "revoked_at": None, "disabled_at": None, "role": "analyst", "rows": 48842,
    "sd": 0.05, "seq": 3, "step": 2000, "upper": 0.53, "usable": True, "affordable": True,
    "version": "1.0.0", "width_from_privacy": 0.01,
    "sentence": "Reliable: privacy widens these intervals by 1 %.",
    "action": "dataset.create", "address": "127.0.0.1", "kind": "post",
    "parameters": ["Intercept", "age"], "warnings": [], "notes": [], "jobs_left": 24,
    "reasons": ["noisy_quadratic: independent draws, 1.05 times as wide as without privacy"],
    "submitted": {"model": {"family": "logistic", "formula": "income ~ age + sex"}},
    "spec": {"model": {"family": "logistic", "formula": "income ~ age + sex"}},
    "detail": "Resembles a dataset that was uploaded before.", "draw": 0,
    "columns": EXAMPLES["DatasetIn"]["columns"],
}  # fmt: skip
TEXTS = {
    "text/csv": "chain,draw,warmup,Intercept,age\n0,0,0,-0.154,0.0601\n0,1,0,-0.149,0.0593\n",
    "text/event-stream": 'event: progress\ndata: {"step": 500, "of": 2000}\n\n',
}


def illustrate(document: Json) -> None:
    """Add an example to every parameter, body and answer that has none."""
    schemas = document["components"]["schemas"]
    for path, item in document["paths"].items():
        for operation in item.values():
            for parameter in operation.get("parameters", []):
                if parameter["required"]:
                    parameter.setdefault("example", _like(parameter, schemas))
            contents = [
                answer.get("content", {})
                for status, answer in operation["responses"].items()
                if status.startswith("2")
            ]
            for kind, answer in (pair for content in contents for pair in content.items()):
                _answer(kind, answer, schemas, table="tables" in path)
            body = operation.get("requestBody", {}).get("content", {})
            for form in (form for kind, form in body.items() if kind.startswith("multipart")):
                metadata = form["schema"]["properties"].get("metadata")
                if metadata is not None:
                    model = metadata["$ref"].removeprefix(PLACE)
                    form["example"] = {"file": "rows.csv", "metadata": EXAMPLES[model]}


def _like(parameter: Json, schemas: Json) -> Any:
    """Return an example of a parameter."""
    return {"id": ID, "job": [ID]}.get(parameter["name"], _of(parameter["schema"], schemas))


def _answer(kind: str, answer: Json, schemas: Json, *, table: bool) -> None:
    """Add an example to an answer."""
    if table and kind == "text/csv":
        answer["example"] = "age,sex,income\n39,Male,<=50K\n52,Female,>50K\n"
    elif kind in TEXTS:
        answer["example"] = TEXTS[kind]
    elif kind == "application/json":
        answer["example"] = _of(answer["schema"], schemas)


def _of(schema: Json, schemas: Json, name: str = "", depth: int = 0) -> Any:
    """Return an example of a schema. name: of the member that has it."""
    for key in ("const", "example", "default"):
        if key in schema:
            return schema[key]
    example = NAMED.get(name)
    if name in NAMED and _suits(example, schema):
        return example
    if "$ref" in schema:
        return _of(schemas[schema["$ref"].removeprefix(PLACE)], schemas, name, depth + 1)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return _of(schema[several][0], schemas, name, depth + 1)
    if "enum" in schema:
        return schema["enum"][0]
    return _plain(schema, schemas, depth)


def _suits(value: Any, schema: Json) -> bool:
    """Return whether a value has the type that a schema requires."""
    kinds: dict[str, Any] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
        "array": list,
        "object": dict,
    }
    if "anyOf" in schema:
        return any(_suits(value, option) for option in schema["anyOf"])
    if "enum" in schema and value not in schema["enum"]:
        return False
    if (
        isinstance(value, list)
        and value
        and isinstance(value[0], str)
        and schema.get("items", {}).get("type") != "string"
    ):
        return False
    return isinstance(value, kinds.get(schema.get("type", ""), ())) and "format" not in schema


def _plain(schema: Json, schemas: Json, depth: int) -> Any:
    """Return an example of a schema by its type."""
    kind = schema.get("type")
    if kind == "object":
        if depth > DEEPEST or "properties" not in schema:
            rest = schema.get("additionalProperties")
            return {ID: _of(rest, schemas, "", depth + 1)} if isinstance(rest, dict) else {}
        return {
            name: _of(member, schemas, name, depth + 1)
            for name, member in schema["properties"].items()
            if name in schema.get("required", list(schema["properties"]))
        }
    if kind == "array":
        return [_of(schema["items"], schemas, "", depth + 1)] if "items" in schema else []
    if kind == "string":
        written = {"uuid": ID, "date-time": "2030-01-01T12:00:00Z", "binary": "…"}
        return written.get(schema.get("format", ""), "text")
    plain: Json = {"integer": 1, "number": 0.5, "boolean": True}
    return plain.get(str(kind))
