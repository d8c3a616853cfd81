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
    operations: dict[str, list[Json]] = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                tag = item[method]["tags"][0]
                operations.setdefault(tag, []).append(operation(path, method, item[method]))
    return [
        {"title": TITLES.get(tag, tag.title()), "operations": o} for tag, o in operations.items()
    ]


def of_id(document: Json, id: str) -> Json | None:
    """Return the operation of an identifier, None where there is none."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item and id_of(path, method) == id:
                return operation(path, method, item[method])
    return None


def id_of(path: str, method: str) -> str:
    """Return what an operation is called in addresses."""
    return f"{method}{path}".replace("/", "-").replace("{", "").replace("}", "")


def operation(path: str, method: str, described: Json) -> Json:
    """Return one operation with its bodies and answers as examples."""
    bodies = [
        {
            "kind": kind,
            "examples": examples(body),
            "schemas": references(body["schema"]),
            "metadata": json.dumps(body.get("example", {}).get("metadata"), indent=2),
        }
        for kind, body in described.get("requestBody", {}).get("content", {}).items()
    ]
    answers = [
        {"status": status, "says": answer["description"], "contents": contents(answer)}
        for status, answer in sorted(described["responses"].items())
    ]
    parameters = [
        {**parameter, "type": kind_of(parameter["schema"])}
        for parameter in described.get("parameters", [])
    ]
    return {
        "id": id_of(path, method),
        "method": method.upper(),
        "path": path,
        "summary": described["summary"],
        "description": described["description"].removeprefix(described["summary"]).lstrip(". \n"),
        "parameters": parameters,
        "bodies": bodies,
        "answers": answers,
        "curl": curl(path, method.upper(), bodies, described),
        "key": "security" in described,
    }


def examples(body: Json) -> list[str]:
    """Return the examples of a body or an answer, as they are sent."""
    several = [example["value"] for example in body.get("examples", {}).values()]
    values = several or ([body["example"]] if "example" in body else [])
    return [value if isinstance(value, str) else json.dumps(value, indent=2) for value in values]


def contents(answer: Json) -> list[Json]:
    """Return what an answer may be: kind, examples and the schemas that it has."""
    return [
        {
            "kind": kind,
            "examples": examples(content),
            "schemas": references(content.get("schema", {})),
        }
        for kind, content in answer.get("content", {}).items()
    ]


def references(schema: Json) -> list[str]:
    """Return the names of the schemas of which this one is, or of which it is a choice."""
    several = schema.get("oneOf") or schema.get("anyOf") or [schema]
    return [reference["$ref"].rsplit("/", 1)[1] for reference in several if "$ref" in reference]


def curl(path: str, method: str, bodies: list[Json], described: Json) -> str:
    """Return a command that calls an operation with its first example."""
    required = [parameter for parameter in described.get("parameters", []) if parameter["required"]]
    query = [f"{parameter['name']}=$ID" for parameter in required if parameter["in"] == "query"]
    address = path.replace("{id}", "$ID").replace("{number}", "0")
    parts = [f'curl -X {method} "$URL{address}{"?" if query else ""}{"&".join(query)}"']
    if "security" in described:
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
            kinds = (kind_of(option) for option in schema[several] if option.get("type") != "null")
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
                    "type": kind_of(member_schema),
                    "links": linked(member_schema),
                    "required": member in schema.get("required", []),
                    "default": json.dumps(member_schema["default"])
                    if "default" in member_schema
                    else "",
                }
                for member, member_schema in schema.get("properties", {}).items()
            ],
            "choices": schema.get("enum", []),
        }
        for name, schema in document["components"]["schemas"].items()
    ]


def linked(schema: Json) -> list[str]:
    """Return the names of all schemas that a member's schema mentions."""
    names = [str(schema["$ref"]).rsplit("/", 1)[1]] if "$ref" in schema else []
    for part in (*schema.get("anyOf", []), *schema.get("oneOf", []), schema.get("items")):
        names += linked(part) if isinstance(part, dict) else []
    return list(dict.fromkeys(names))
