"""`./dev docs`: the documentation as a site in var/docs/site, its reference made from the code.

Pages are the Markdown files of docs, and README.md as the first. A link out of docs has no page to
lead to: it becomes the file's name. Any other broken link or anchor fails the build. The site is
read from the disk or from any server of files: its search asks nobody.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from docs.reference import reference

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
    shutil.copytree(DOCS / "vendor", pages / "vendor")
    shutil.copy(DOCS / "site.css", pages)
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
    """The text with all but its code blocks changed; words beside a language are for tests."""
    text = re.sub(r"^```(\w+) .*$", r"```\1", text, flags=re.M)
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else changed(part) for part in parts)


def _named(source: Path, target: str) -> str:
    found = (source.parent / target).resolve()
    return found.relative_to(ROOT).as_posix() if found.is_relative_to(ROOT) else target


if __name__ == "__main__":
    sys.exit(main())
