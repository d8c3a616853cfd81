"""The pages of reference, made from the code: library, options, commands, REST, its schemas."""

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any, get_args

import typer

import dpmcmc
from app.main import create_app
from dpmcmc.client.cli import HELP, app
from dpmcmc.fit.results import Result
from dpmcmc.planner.planning import Plan
from dpmcmc.posterior.free.effects import Comparison, Effect, Prediction, Spread
from dpmcmc.posterior.free.posterior import BayesFactor, FreePosterior
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.samplers.algorithms import OPTIONS

RETURNED = (
    *(Result, Plan, Verdict, StoredRelease, FreePosterior),
    *(Spread, Prediction, Comparison, Effect, BayesFactor),
)
MOST_WIDTH = 88  # of a signature that stays on one line
SHORT = {  # what would hide the rest of a signature
    " | ".join(kind.__name__ for kind in get_args(OPTIONS)): "Options",
}


def reference() -> Iterator[tuple[str, str]]:
    """Yield name and text of each page that the code makes."""
    yield "library.md", _library()
    yield "options.md", _options()
    yield "command_line.md", _command_line()
    document = create_app().openapi()
    yield "rest.md", _rest(document)
    yield "schemas.md", _schemas(document)


def _library() -> str:
    lines = [
        "# The library",
        "",
        "What `import dpmcmc` offers, and after it what its calls return.",
        "",
    ]
    lines += [
        "All arguments that a class takes are attributes of its objects.",
        "",
        "## Imported",
        "",
    ]
    for name in sorted(dpmcmc.__all__, key=str.lower):
        lines += _entries(name, getattr(dpmcmc, name))
    lines += [
        "## Returned",
        "",
        "What `sample`, `plan`, `release.posterior` and its methods return.",
        "",
    ]
    for kind in RETURNED:
        lines += _entries(kind.__name__, kind)
    return "\n".join(lines)


def _entries(name: str, found: Any) -> list[str]:
    lines = _entry("###", name, name, found)
    for member in _members(found) if inspect.isclass(found) else ():
        lines += _entry("####", f"{name}.{member}", member, inspect.getattr_static(found, member))
    return lines


def _members(kind: type) -> list[str]:
    documented = [name for name, one in vars(kind).items() if getattr(one, "__doc__", None)]
    callables = property, classmethod, staticmethod
    made = [
        n
        for n in documented
        if inspect.isfunction(vars(kind)[n]) or isinstance(vars(kind)[n], callables)
    ]
    return sorted(name for name in made if not name.startswith("_"))


def _entry(level: str, title: str, name: str, found: Any) -> list[str]:
    if isinstance(found, property):
        kind = _annotation(inspect.signature(found.fget).return_annotation)  # type: ignore[arg-type]
        shown = f"{name}: {kind}"
    else:
        shown = name + _signature(getattr(found, "__func__", found))
    return [f"{level} {title}", "", "```python", shown, "```", "", _prose(found), ""]


def _signature(found: Any) -> str:
    """Return what a call takes, without modules of types; one argument a line if it is long."""
    try:
        whole = inspect.signature(found)
    except (TypeError, ValueError):
        return ""
    words, star = [], False
    for one in whole.parameters.values():
        if one.name in ("self", "cls", "random"):  # random: for tests only
            continue
        if one.kind is one.KEYWORD_ONLY and not star:
            star = True
            words.append("*")
        kind = "" if one.annotation is one.empty else f": {_annotation(one.annotation)}"
        spaced = " = " if kind else "="
        default = "" if one.default is one.empty else f"{spaced}{one.default!r}"
        words.append(f"{one.name}{kind}{default}")
    back = whole.return_annotation
    end = "" if back in (whole.empty, None) else f" -> {_annotation(back)}"
    short = f"({', '.join(words)}){end}"
    return short if len(short) <= MOST_WIDTH else "(\n    " + ",\n    ".join(words) + f",\n){end}"


def _annotation(kind: Any) -> str:
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    text = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)
    union = re.fullmatch(r"(?:Union|Optional)\[(.*)\]", text)
    if union:  # as it is written today
        parts = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", union.group(1))
        text = " | ".join(part.strip().replace("NoneType", "None") for part in parts)
    for long, short in SHORT.items():
        text = text.replace(long, short)
    return text


def _prose(found: Any) -> str:
    text = inspect.cleandoc(found.__doc__ or "")
    return re.sub(r"(?<![`\w])([A-Za-z_][\w.]*\([^()\n]*\))(?![`\w])", r"`\1`", text)


def _options() -> str:
    lines = [
        "# Options of the algorithms",
        "",
        "As `sampler` of a job, and as classes of `dpmcmc.inputs.options`.",
        "What is `None` is chosen by the planner.",
    ]
    for kind in get_args(OPTIONS):
        lines += [
            "",
            f"## {kind.__name__}",
            "",
            _prose(kind),
            "",
            "| option | type | default |",
            "|---|---|---|",
        ]
        for one in fields(kind):
            default = one.default if one.default is not MISSING else "needed"
            if one.default_factory is not MISSING:
                default = one.default_factory()
            lines.append(f"| `{one.name}` | {_cell(_annotation(one.type))} | `{default!r}` |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _command_line() -> str:
    lines = [
        "# Commands",
        "",
        HELP,
        "",
        "How they are used is in [the guide](../guides/command_line.md).",
        "",
    ]
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name in sorted(commands):
        taken = [one for one in commands[name].params if one.name != "help"]
        words = [_word(one) for one in taken if one.param_type_name == "argument"]
        usage = ["```text", " ".join(["dpmcmc", name, *words]), "```"]
        lines += [f"## {name}", "", *usage, "", str(commands[name].help), ""]
        lines += ["| | |", "|---|---|", *map(_row, taken), ""] if taken else []
    return "\n".join(lines)


def _word(one: Any) -> str:
    name = one.name.upper() + ("..." if one.nargs == -1 else "")
    return name if one.required else f"[{name}]"


def _row(one: Any) -> str:
    named = one.name.upper() if one.param_type_name == "argument" else ", ".join(one.opts)
    return f"| `{named}` | {one.help or ''} |"


def _rest(document: dict[str, Any]) -> str:
    lines = ["# The REST API", "", str(document["info"].get("description", "")), ""]
    lines += ["The same is at `/docs` of a running service, where it can be tried.", ""]
    for path, item in document["paths"].items():
        for method, one in item.items():
            told = one.get("description") or one.get("summary", "")
            lines += [
                f"## {method.upper()} {path}",
                "",
                told,
                "",
                *_parameters(one),
                *_body(one),
                *_answers(one),
            ]
    return "\n".join(lines)


def _parameters(one: dict[str, Any]) -> list[str]:
    named = one.get("parameters", [])
    if not named:
        return []
    rows = [
        f"| `{p['name']}` | {p['in']} | {_kind(p['schema'])} | {p.get('description', '')} |"
        for p in named
    ]
    return ["| parameter | in | type | |", "|---|---|---|---|", *rows, ""]


def _body(one: dict[str, Any]) -> list[str]:
    lines = []
    for form, content in one.get("requestBody", {}).get("content", {}).items():
        lines += [f"**Body** (`{form}`): {_kind(content.get('schema', {}))}", ""]
        examples = [content["example"]] if "example" in content else []
        examples += [found["value"] for found in content.get("examples", {}).values()]
        for example in examples:
            lines += ["```json", json.dumps(example, indent=2), "```", ""]
    return lines


def _answers(one: dict[str, Any]) -> list[str]:
    good = {code: told for code, told in one["responses"].items() if code < "4"}
    lines = []
    for code, told in good.items():
        kinds = [
            f"`{form}`" + (f": {_kind(content['schema'])}" if content.get("schema") else "")
            for form, content in told.get("content", {}).items()
        ]
        lines += [f"**{code}**: " + ("; ".join(kinds) or "no body"), ""]
    refused = ", ".join(sorted(set(one["responses"]) - set(good)))
    return [*lines, f"Refusals: {refused}, each a [Problem](schemas.md#problem).", ""]


def _schemas(document: dict[str, Any]) -> str:
    lines = [
        "# Schemas",
        "",
        "Bodies and answers of [the REST API](rest.md), in the order of the alphabet.",
        "",
    ]
    for name, schema in sorted(
        document["components"]["schemas"].items(), key=lambda one: _short(one[0]).lower()
    ):
        lines += [f"## {_short(name)}", "", schema.get("description", ""), ""]
        if "enum" in schema:
            lines += ["One of " + ", ".join(f"`{one}`" for one in schema["enum"]) + ".", ""]
        rows = []
        for field, one in schema.get("properties", {}).items():
            need = "needed" if field in schema.get("required", ()) else _default(one)
            rows.append(
                f"| `{field}` | {_kind(one)} | {need} | {_line(one.get('description', ''))} |"
            )
        lines += ["| field | type | default | |", "|---|---|---|---|", *rows, ""] if rows else []
    return "\n".join(lines)


def _short(name: str) -> str:
    """Return a schema's name: of two of one name the module is told too."""
    return re.sub(r"^dpmcmc__(\w+)__", lambda found: f"{found.group(1).replace('__', '.')}.", name)


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _default(one: dict[str, Any]) -> str:
    return f"`{json.dumps(one['default'])}`" if "default" in one else ""


def _kind(one: dict[str, Any]) -> str:
    """Return a schema's type in words, with links to those that have names."""
    if "$ref" in one:
        name = _short(one["$ref"].rpartition("/")[2])
        return f"[{name}](schemas.md#{re.sub(r'[^a-z0-9_-]', '', name.lower())})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in one:
            return " or ".join(dict.fromkeys(_kind(each) for each in one[several]))
    if "const" in one or "enum" in one:
        return " or ".join(f"`{json.dumps(each)}`" for each in one.get("enum", [one.get("const")]))
    if one.get("type") == "array":
        return f"list of {_kind(one.get('items', {}))}"
    if one.get("type") == "object" and isinstance(one.get("additionalProperties"), dict):
        return f"object of {_kind(one['additionalProperties'])}"
    words = [str(one.get("type", "anything"))]
    if one.get("properties"):
        words[0] += " of " + ", ".join(f"`{name}`" for name in one["properties"])
    words += [f"{sign} {one[key]}" for key, sign in LIMITS.items() if key in one]
    return ", ".join(words)


LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
