"""`./dev docs`: the documentation as a site in var/docs/site, its reference made from the code.

Pages are the Markdown files of docs, and README.md as the first. A link out of docs has no page to
lead to: it becomes the file's name. Any other broken link or anchor fails the build.
"""

import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

import dpmcmc
from dpmcmc.algorithms import OPTIONS
from dpmcmc_service.main import create_app

ROOT = Path(__file__).resolve().parents[1]
DOCS, CONFIG = ROOT / "docs", ROOT / "docs" / "site.toml"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def main() -> int:
    """Build the site in the folder that is named, else in var/docs. Returns 0, or what failed."""
    stage = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "var" / "docs"
    write_pages(stage)
    shutil.copy(CONFIG, stage / "zensical.toml")
    build = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(build, cwd=stage, check=False).returncode  # noqa: S603 - ours
    if not done:
        sys.stdout.write(f"the site is in {stage / 'site'}\n")
    return done


def write_pages(stage: Path) -> None:
    """Write all pages into an empty folder."""
    shutil.rmtree(stage, ignore_errors=True)
    pages = stage / "docs"
    for source in sorted(DOCS.rglob("*.md")):
        _write(pages / source.relative_to(DOCS), source, source.read_text())
    _write(pages / "index.md", ROOT / "README.md", (ROOT / "README.md").read_text())
    for name, text in reference():
        place = pages / "reference" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def _write(place: Path, source: Path, text: str) -> None:
    """Write a page, its links and pictures as they are from there."""
    pages = place
    while pages.name != "docs":
        pages = pages.parent

    def led(target: str) -> str | None:
        """The target as it is from the page; None where it has no page."""
        found = (source.parent / target).resolve()
        if found == ROOT / "README.md":
            found = DOCS / "index.md"
        if found.is_relative_to(DOCS) and (found.suffix == ".md" or found.is_file()):
            return Path(found).relative_to(DOCS).as_posix()
        return None

    def up(path: str) -> str:
        depth = len(place.relative_to(pages).parts) - 1
        return "../" * depth + path

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        if "://" in target or target.startswith("mailto:"):
            return match.group(0)
        page = led(target)
        if page is None:
            return words if words.startswith("`") else f"{words} (`{_named(source, target)}`)"
        return f"[{words}]({up(page)}{anchor})"

    def picture(match: re.Match[str]) -> str:
        words, target = match.groups()
        found = (source.parent / target).resolve()
        kept = pages / "pictures" / found.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(found, kept)
        return f"![{words}]({up(f'pictures/{found.name}')})"

    text = re.sub(r'<img src="([^"]+)" alt="([^"]*)"[^>]*>', r"![\2](\1)", text)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(_outside_code(text, lambda part: LINK.sub(link, PICTURE.sub(picture, part))))


def _outside_code(text: str, changed: Any) -> str:
    """The text with all but its code blocks changed; "run" in these is for the tests."""
    text = re.sub(r"^```(\w+) run$", r"```\1", text, flags=re.M)
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else changed(part) for part in parts)


def _named(source: Path, target: str) -> str:
    found = (source.parent / target).resolve()
    return found.relative_to(ROOT).as_posix() if found.is_relative_to(ROOT) else target


def reference() -> Iterator[tuple[str, str]]:
    """Yield name and text of each page that the code makes."""
    yield "library.md", _library()
    yield "options.md", _options()
    yield "rest.md", _rest()


def _library() -> str:
    lines = ["# The library", "", "What `import dpmcmc` offers, in the order of the alphabet.", ""]
    for name in sorted(dpmcmc.__all__):
        found = getattr(dpmcmc, name)
        lines += _entry("##", name, name, found)
        for method in _methods(found) if inspect.isclass(found) else ():
            lines += _entry("###", f"{name}.{method}", method, getattr(found, method))
    return "\n".join(lines)


def _methods(kind: type) -> list[str]:
    callables = inspect.isfunction, inspect.ismethod
    made = [name for name in vars(kind) if any(is_one(getattr(kind, name)) for is_one in callables)]
    return sorted(name for name in made if not name.startswith("_"))


def _entry(level: str, title: str, name: str, found: Any) -> list[str]:
    signature = ["```python", f"{name}{_signature(found)}", "```"]
    return [f"{level} {title}", "", *signature, "", _prose(found), ""]


def _signature(found: Any) -> str:
    try:
        return str(inspect.signature(found))
    except (TypeError, ValueError):
        return ""


def _prose(found: Any) -> str:
    text = inspect.cleandoc(found.__doc__ or "")
    return re.sub(r"(?<![`\w])([A-Za-z_][\w.]*\([^()\n]*\))(?![`\w])", r"`\1`", text)


def _options() -> str:
    lines = [
        "# Options of the algorithms",
        "",
        "As `sampler` of a job, and as classes of `dpmcmc.options`.",
    ]
    for kind in get_args(OPTIONS):
        lines += ["", f"## {kind.__name__}", "", _prose(kind), ""]
        lines += ["| option | default |", "|---|---|"]
        for one in fields(kind):
            default = one.default if one.default is not MISSING else "needed"
            if one.default_factory is not MISSING:
                default = one.default_factory()
            lines.append(f"| `{one.name}` | `{default!r}` |")
    return "\n".join(lines)


def _rest() -> str:
    app = create_app()
    document = app.openapi()
    lines = ["# The REST API", "", str(document["info"].get("description", "")), ""]
    for path, item in document["paths"].items():
        for method, one in item.items():
            told = one.get("description") or one.get("summary", "")
            lines += [f"## {method.upper()} {path}", "", told, "", *_parameters(one), *_body(one)]
            codes = ", ".join(f"{code}" for code in one["responses"])
            lines += [f"Answers: {codes}.", ""]
    return "\n".join(lines)


def _parameters(one: dict[str, Any]) -> list[str]:
    named = one.get("parameters", [])
    if not named:
        return []
    rows = [f"| `{p['name']}` | {p['in']} | {p.get('description', '')} |" for p in named]
    return ["| parameter | in | |", "|---|---|---|", *rows, ""]


def _body(one: dict[str, Any]) -> list[str]:
    content = one.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples = [content["example"]] if "example" in content else []
    examples += [found["value"] for found in content.get("examples", {}).values()]
    lines = []
    for example in examples:
        lines += ["```json", json.dumps(example, indent=2), "```", ""]
    return lines


if __name__ == "__main__":
    sys.exit(main())
