"""How a page is made: its template, what all pages show, and headers that keep it at home."""

import decimal
import json
import keyword
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, FileSystemLoader, Template
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from app.web.names import named, told
from app.web.session import Session

HERE = Path(__file__).parent
# data: is for the icons inside Pico's style sheet; scripts, styles and requests stay at home
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none';"
        " form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
templates = Jinja2Templates(
    env=Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
)


MEASURED = ("number", "date")  # types whose values are numbers in a formula
INDENTED = re.compile(r"\n\s+(?=<)")
EXPONENT = re.compile(r"e(?:\+|(-))0*(\d+)$")  # 1e-06 is written 1e-6


def digits(value: float | None, count: int = 4) -> str:
    """Return a number with so many digits that count, a dash for none."""
    return "–" if value is None else EXPONENT.sub(r"e\1\2", f"{value:.{count}g}")


def left(value: float | None) -> str:
    """Return what is left of a budget, rounded down: as dpmcmc.base.digits, so that it fits."""
    if value is None:
        return "–"
    with decimal.localcontext(prec=4, rounding=decimal.ROUND_FLOOR):
        return digits(float(+Decimal(value * (1.0 + 1e-12))))


def r_hat(value: float | None) -> str:
    """Return an R-hat, whose third decimal tells, a dash for none."""
    return "–" if value is None else f"{value:.3f}"


def exact(value: float) -> str:
    """Return a number with all its digits: what somebody declared, or is to send again."""
    return EXPONENT.sub(r"e\1\2", repr(float(value)).removesuffix(".0"))


def whole(value: float | None) -> str:
    """Return a number without decimals, a dash for none."""
    return "–" if value is None else f"{value:,.0f}"


def jobs_of_one(count: int) -> str:
    """Return a number of jobs of epsilon 1 in words."""
    return f"{count or 'no'} {'job' if count == 1 else 'jobs'} of ε 1"


def moment(written: str | None) -> str:
    """Return a time to the minute, in UTC."""
    return f"{datetime.fromisoformat(written):%Y-%m-%d %H:%M}" if written else "–"


def term(column: dict[str, Any], response: bool = False) -> str:
    """Return how a formula names a column: C(name) for categories, but as a response."""
    name = str(column["name"])
    plain = name if name.isidentifier() and not keyword.iskeyword(name) else f"`{name}`"
    return plain if response or column["type"] in MEASURED else f"C({plain})"


def of_curve(parameter: str) -> bool:
    """Whether a parameter is one of those of a smooth term, which mean little alone."""
    return parameter.startswith("s(") and parameter.endswith("]")


def compact(value: Any) -> str:
    """Return JSON for a script of the page, in a data block that cannot end early."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def what(job: dict[str, Any]) -> str:
    """Return what a job is of: its formula, or the columns of its task."""
    spec = job["spec"]
    if job["kind"] == "inference":
        asked = spec["inference"]
        return f"{asked['family'].replace('_', ' ')} given job {asked['of'][:8]}"
    if job["kind"] == "chain":
        return str(spec["model"]["formula"])
    task, columns = spec["task"], list[str]()
    if task.get("model"):
        return f"check of {task['model']['formula']}"
    for statistic in task.get("statistics", [task]):
        columns += statistic.get("columns") or (
            [statistic["column"]] if "column" in statistic else []
        )
    return ", ".join(dict.fromkeys(columns)) or "all columns"


def size(dataset: dict[str, Any]) -> str:
    """A dataset's public size: of rows, or of persons."""
    if dataset["rows"] is None:
        return f"{dataset['units']:,} persons"
    return f"{dataset['rows']:,} rows"


def protected(protects: dict[str, Any]) -> str:
    """Whom an epsilon protects, in words: as dpmcmc.base.names, which pages do not read."""
    if protects["unit"] == "row":
        return "a row"
    rows = "row" if protects["max_rows"] == 1 else "rows"
    return f"a person (named by {protects['unit']}, at most {protects['max_rows']} {rows})"


def unindented(html: Markup) -> Markup:
    """Return a long page without the spaces before its tags."""
    return Markup(INDENTED.sub("\n", html))  # noqa: S704 - what was escaped stays so


templates.env.filters |= {
    "unindented": unindented,
    "protected": protected,
    "digits": digits,
    "left": left,
    "whole": whole,
    "moment": moment,
    "compact": compact,
    "size": size,
    "named": named,
    "told": told,
    "what": what,
    "jobs_of_one": jobs_of_one,
    "term": term,
    "r_hat": r_hat,
    "exact": exact,
}
templates.env.tests["of_curve"] = of_curve


def in_days(days: int) -> str:
    """Return the day so many days from now, as a field of dates takes it."""
    return f"{datetime.now(UTC).date() + timedelta(days=days)}"


templates.env.globals["in_days"] = in_days


def page(
    request: Request, name: str, session: Session | None, status: int = 200, **values: Any
) -> HTMLResponse:
    """Return a page. session: whose it is; None before anybody signed in."""
    known = {"session": session, "here": request.url.path, "csrf": session.csrf if session else ""}
    return Page(templates.get_template(name), {"request": request} | known | values, status)


class Page(HTMLResponse):
    """A page that is filled in a thread when it is sent: a long table takes a while."""

    def __init__(self, template: Template, values: dict[str, Any], status: int) -> None:
        super().__init__(status_code=status, headers=HEADERS)
        del self.headers["content-length"]
        self._template, self._told = template, values

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Fill the page, and send it."""
        self.body = await run_in_threadpool(self._filled)
        self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)

    def _filled(self) -> bytes:
        return self._template.render(self._told).encode()
