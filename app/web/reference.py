"""The API's page: what the OpenAPI document says, as a reader looks it up."""

import json
from typing import Any

Json = dict[str, Any]
METHODS = ("get", "post", "put", "patch", "delete")
TITLES = {
    "datasets": "Datasets and budgets",
    "jobs": "Plans and jobs",
    "users": "Users and keys",
    "audit": "Audit and recovery",
    "catalogue": "What is registered",
    "accounting": "Accounting",
    "operations": "Operations",
}
LIMITS = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "above"}
LENGTHS = {"maxLength": "up to {} characters", "maxItems": "up to {} items"}


def sections(document: Json) -> list[Json]:
    """Return the operations by tag, in the order in which tags come: title and operations."""
    found: dict[str, list[Json]] = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                tag = item[method]["tags"][0]
                found.setdefault(tag, []).append(operation(path, method, item[method]))
    return [{"title": TITLES.get(tag, tag.title()), "operations": o} for tag, o in found.items()]


def operation(path: str, method: str, told: Json) -> Json:
    """Return one operation with its bodies and answers as examples."""
    bodies = [
        {
            "kind": kind,
            "examples": examples(body),
            "schemas": references(body["schema"]),
            "metadata": json.dumps(body.get("example", {}).get("metadata"), indent=2),
        }
        for kind, body in told.get("requestBody", {}).get("content", {}).items()
    ]
    answers = [
        {"status": status, "says": answer["description"], "contents": contents(answer)}
        for status, answer in sorted(told["responses"].items())
    ]
    parameters = [{**one, "type": kind_of(one["schema"])} for one in told.get("parameters", [])]
    return {
        "id": f"{method}{path}".replace("/", "-").replace("{", "").replace("}", ""),
        "method": method.upper(),
        "path": path,
        "summary": told["summary"],
        "description": told["description"].removeprefix(told["summary"]).lstrip(". \n"),
        "parameters": parameters,
        "bodies": bodies,
        "answers": answers,
        "curl": curl(path, method.upper(), bodies, told),
        "key": "security" in told,
    }


def examples(body: Json) -> list[str]:
    """Return the examples of a body or an answer, as they are sent."""
    several = [one["value"] for one in body.get("examples", {}).values()]
    found = several or ([body["example"]] if "example" in body else [])
    return [one if isinstance(one, str) else json.dumps(one, indent=2) for one in found]


def contents(answer: Json) -> list[Json]:
    """Return what an answer may be: kind, examples and the schemas that it has."""
    return [
        {"kind": kind, "examples": examples(one), "schemas": references(one.get("schema", {}))}
        for kind, one in answer.get("content", {}).items()
    ]


def references(schema: Json) -> list[str]:
    """Return the names of the schemas of which this one is, or of which it is a choice."""
    several = schema.get("oneOf") or schema.get("anyOf") or [schema]
    return [one["$ref"].rsplit("/", 1)[1] for one in several if "$ref" in one]


def curl(path: str, method: str, bodies: list[Json], told: Json) -> str:
    """Return a command that calls an operation with its first example."""
    required = [one for one in told.get("parameters", []) if one["required"]]
    query = [f"{one['name']}=$ID" for one in required if one["in"] == "query"]
    address = path.replace("{id}", "$ID").replace("{number}", "0")
    parts = [f'curl -X {method} "$URL{address}{"?" if query else ""}{"&".join(query)}"']
    if "security" in told:
        parts.append('-H "Authorization: Bearer $KEY"')
    for body in bodies[:1]:
        if body["kind"].startswith("multipart"):
            parts.append('-F "file=@rows.csv" -F "metadata=<metadata.json"')
        elif body["examples"]:
            compact = json.dumps(json.loads(body["examples"][0]))
            parts += [f'-H "Content-Type: {body["kind"]}"', f"-d '{compact}'"]
    return " \\\n  ".join(parts)


def kind_of(schema: Json) -> str:
    """Return the type of a schema in words, its limits with it."""
    for several in ("anyOf", "oneOf"):
        if several in schema:
            kinds = (kind_of(one) for one in schema[several] if one.get("type") != "null")
            return " or ".join(dict.fromkeys(kinds))
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    kind = str(schema.get("format") or schema.get("type") or "anything")
    if kind == "array":
        kind = f"list of {kind_of(schema.get('items', {}))}"
    limits = [f"{words} {schema[name]}" for name, words in LIMITS.items() if name in schema]
    limits += [words.format(schema[name]) for name, words in LENGTHS.items() if name in schema]
    return ", ".join([kind, *limits])


def schemas(document: Json) -> list[Json]:
    """Return the named schemas: what each says, and its members with their types and links."""
    return [
        {
            "name": name,
            "description": schema.get("description", ""),
            "members": [
                {
                    "name": member,
                    "type": kind_of(one),
                    "links": linked(one),
                    "required": member in schema.get("required", []),
                    "default": json.dumps(one["default"]) if "default" in one else "",
                }
                for member, one in schema.get("properties", {}).items()
            ],
            "choices": schema.get("enum", []),
        }
        for name, schema in document["components"]["schemas"].items()
    ]


def linked(schema: Json) -> list[str]:
    """Return the names of all schemas that a member's schema mentions."""
    found = [str(schema["$ref"]).rsplit("/", 1)[1]] if "$ref" in schema else []
    for one in (*schema.get("anyOf", []), *schema.get("oneOf", []), schema.get("items")):
        found += linked(one) if isinstance(one, dict) else []
    return list(dict.fromkeys(found))
