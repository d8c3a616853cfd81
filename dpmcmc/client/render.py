"""Answers of the service as tables for a terminal."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from dpmcmc.base.digits import rounded_down
from dpmcmc.base.names import ROW, protected

Json = dict[str, Any]

COLOURS = {"reliable": "green", "unreliable": "red", "succeeded": "green", "failed": "red"}
NO_NAMES: Mapping[str, str] = {}
MOST_VALUES = 10  # values of a statistic
MOST_PLACES, MOST_DIGITS = 6, 9  # of a number without an exponent, behind its point and before it
MIXED_BELOW = 1.01  # a chain whose R-hat is above this has not mixed by the usual standard


def epsilon(value: float | None) -> str:
    """An epsilon with four significant digits; "-" where there is none."""
    return "-" if value is None else f"{value:.4g}"


def left(value: float | None) -> str:
    """What is left of a budget, rounded down so that a job of that much fits; "-" for none."""
    return "-" if value is None else rounded_down(value)


def table(title: str, *columns: str) -> Table:
    """An empty table: text to the left in the first column, numbers to the right."""
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    grid.padding, grid.pad_edge = (0, 1, 0, 0), False
    for index, column in enumerate(columns):
        grid.add_column(column, justify="right" if index else "left", no_wrap=index > 0)
    grid.columns[0].overflow = "fold"  # a long name is broken, never a number
    return grid


def budget_bar(budget: Json, width: int = 40) -> str:
    """One line of coloured blocks: the shares of a budget that are spent, reserved and left."""
    amounts = [budget[kind]["epsilon"] or 0.0 for kind in ("spent", "reserved", "remaining")]
    total = sum(amounts) or 1.0
    spent, reserved = (round(width * amount / total) for amount in amounts[:2])
    reserved = min(reserved, width - spent)
    remaining = width - spent - reserved
    return f"[red]{'█' * spent}[/][yellow]{'█' * reserved}[/][green]{'█' * remaining}[/]"


def budgets(items: Iterable[Json]) -> Table:
    """A table of the budgets of datasets, one line for each.

    Where no job with Gaussian noise fits, what is left for noise of pure epsilon is told.
    """
    items = list(items)
    whom = {_whom(item) for item in items}
    title = f"Privacy budgets; each protects {whom.pop()}" if len(whom) == 1 else "Privacy budgets"
    heads = ["dataset", "epsilon", "delta", "spent", "reserved", "remaining"]
    grid = table(title, *heads, *(["protects"] if whom else []))
    for item in items:
        pure = (item.get("remaining_pure") or {}).get("epsilon") or 0.0
        remaining = item["remaining"]["epsilon"]
        grid.add_row(
            escape(str(item.get("name") or item["dataset"])),
            epsilon(item["epsilon"]),
            f"{item['delta']:g}",
            *(epsilon(item[kind]["epsilon"]) for kind in ("spent", "reserved")),
            f"pure {left(pure)}" if pure and not remaining else left(remaining),
            *([_whom(item)] if whom else []),
        )
    return grid


def _whom(item: Json) -> str:
    """Whom an answer's epsilon protects, in words; a service of old protects rows."""
    return protected(**item.get("protects", {"unit": ROW, "max_rows": 1}))


def plan(answer: Json) -> Table:
    """The cost and the expected quality of a job."""
    grid = table("The plan (public facts only, nothing spent)", "", "")
    grid.show_header = False
    remaining = answer["remaining_after"]["epsilon"]
    grid.add_row("cost", f"epsilon {epsilon(answer['epsilon'])}, delta {answer['delta']:g}")
    rounds = answer.get("rounds")
    if rounds:
        steps = ", ".join(epsilon(paid) for paid in rounds)
        grid.add_row("paid by rounds", f"epsilon {steps}, until the result is reliable")
    grid.add_row("protects", _whom(answer))
    grid.add_row("algorithm", str(answer.get("algorithm", "-")))
    grid.add_row("chains x steps", f"{answer['num_chains']} x {answer['num_steps']:,}")
    grid.add_row("noise multiplier", f"{answer['noise_multiplier']:.4g}")
    if answer["expected_ess"] is not None:
        grid.add_row("expected ESS", f"{answer['expected_ess']:,.0f}")
    if answer.get("expected_width") is not None:
        grid.add_row("expected width", f"{answer['expected_width']:.3g} times the posterior's")
    grid.add_row("left afterwards", f"epsilon {left(remaining)}")
    grid.add_row("affordable", "[green]yes[/]" if answer["affordable"] else "[red]no[/]")
    if not answer.get("usable", True):
        grid.add_row("usable", "[red]no[/]: refused, but with --accept-low-quality")
    return grid


def verdict(answer: Json) -> str:
    """The verdict on a result: its status in colour, its sentence and its notes."""
    judged = answer.get("verdict")
    if not judged:
        return "[yellow]not judged[/]: this job ran before results had verdicts"
    word, _, explanation = judged["sentence"].partition(":")
    notes = [f"\n[yellow]note:[/] {escape(note['sentence'])}" for note in judged.get("notes", [])]
    return f"[bold {COLOURS[judged['status']]}]{word}[/]:{escape(explanation)}{''.join(notes)}"


def explanation(answer: Json) -> str:
    """What a regression found, in sentences; the verdict stands by itself."""
    sentence = (answer.get("verdict") or {}).get("sentence")
    return "\n".join(escape(line) for line in answer.get("explanation", []) if line != sentence)


def status(job: Json) -> str:
    """A job's status in colour, with the verdict on its result if it has one."""
    text = f"[{COLOURS.get(job['status'], 'yellow')}]{job['status']}[/]"
    verdict = job.get("verdict")
    return text if not verdict else f"{text}, [{COLOURS[verdict['status']]}]{verdict['status']}[/]"


def jobs(items: Iterable[Json]) -> Table:
    """A table of jobs, one line for each, with as much of the id as commands need."""
    grid = table("Jobs", "id", "name, formula", "algorithm", "epsilon", "status")
    grid.columns[1].justify = grid.columns[2].justify = grid.columns[4].justify = "left"
    grid.columns[1].overflow, grid.columns[1].no_wrap = "fold", False
    for item in items:
        formula = ": ".join(filter(None, (item.get("name"), subject_of(item))))
        cost = epsilon(item["cost"]["epsilon"])
        grid.add_row(item["id"][:8], escape(formula), item["algorithm"], cost, status(item))
    return grid


def subject_of(job: Json) -> str:
    """The formula of a job, or the columns of its task."""
    spec = job.get("spec") or {}
    if "task" not in spec:
        return str(spec.get("model", {}).get("formula", "-"))
    task, columns = spec["task"], list[str]()
    if task.get("model"):
        return str(task["model"]["formula"])
    for statistic in task.get("statistics", [task]):
        columns += statistic.get("columns") or (
            [statistic["column"]] if "column" in statistic else []
        )
    return ", ".join(dict.fromkeys(columns)) or "all columns"


def result(answer: Json) -> RenderableType:
    """The released numbers of a task."""
    if answer["kind"] == "summaries":
        grid = table("Summaries", "", "estimate", "lower", "upper")
        for estimate in answer["estimates"]:
            numbers = estimate.get("dates") or (
                f"{estimate[key]:.4g}" for key in ("estimate", "lower", "upper")
            )
            grid.add_row(escape(estimate["name"]), *numbers)
        return grid
    if answer["kind"] == "predictive_check":
        return Group(*map(escape, answer["sentences"]), _bins(answer))
    grid = table(f"The {answer['kind']} task", "", "")
    grid.show_header = False
    if answer["kind"] == "synthetic":
        facts = {
            "tables": f"{answer['tables']} of {answer['rows']:,} rows",
            "columns": ", ".join(answer["columns"]),
            "noise": f"sd {answer['noise_sd']:.3g} rows in each count",
        }
    elif answer["kind"] == "two_stages":
        facts = {"chosen power": f"{answer['power']:.4g}"}
        for number, stage in enumerate(answer["stages"], start=1):
            statistic = _statistic(stage)
            facts |= {f"stage {number}, {name}": value for name, value in statistic.items()}
    else:
        facts = _statistic(answer)
    for name, value in facts.items():
        grid.add_row(name, escape(value))
    return grid


def _bins(answer: Json) -> Table:
    """The bins of a check of a fit."""
    what = "fitted probability" if answer["by"] == "probability" else "distribution"
    grid = table(f"Bins of the {what}", "", "expected", "released", "noise sd", "")
    for one in answer["bins"]:
        numbers = ["too few rows", ""]
        if one["share"] is not None:
            numbers = [f"{one['share']:.1%}", f"{one['noise_sd']:.1%}"]
        ends = f"{one['low']:.3g} to {one['high']:.3g}"
        grid.add_row(ends, f"{one['expected']:.1%}", *numbers, one["differs"])
    return grid


def _statistic(released: Json) -> dict[str, str]:
    values = [f"{value:.6g}" for value in released["values"][:MOST_VALUES]]
    return {
        "values": ", ".join(values) + (" ..." if len(released["values"]) > MOST_VALUES else ""),
        "form": f"{released['form']}, {released['rows']:,} rows",
        "noise": ", ".join(f"{key} {value}" for key, value in released["noise"].items()),
    }


def inference(answer: Json) -> Table:
    """The posterior of a family's parameter, given a released statistic."""
    grid = table(f"By {answer['algorithm']}", "", "mean", "sd", "90 % interval", "R-hat", "ESS")
    parameter = answer["parameter"]
    mixing = (
        "" if parameter[key] is None else f"{parameter[key]:.{digits}g}"
        for key, digits in (("r_hat", 4), ("ess_bulk", 3))
    )
    grid.add_row(escape(parameter["name"]), *moments(parameter), *mixing)
    return grid


def _of(item: Json) -> str:
    """What was reserved, where a job stopped early and got the rest back."""
    reserved = (item.get("reserved") or item["cost"])["epsilon"]
    early = item["cost"]["epsilon"] < reserved
    return f" of {epsilon(reserved)} that were reserved" if early else ""


def job(item: Json) -> Table:
    """One job: its model, cost and progress."""
    grid = table(f"Job {item['id']}", "", "")
    grid.show_header = False
    spec = item.get("spec") or {}
    family = spec.get("model", {}).get("family", item["kind"])
    grid.columns[1].justify, grid.columns[1].no_wrap = "left", False
    progress = item["progress"]
    facts = {
        "status": status(item),
        "dataset": item["dataset"],
        "model": escape(f"{family}: {subject_of(item)}"),
        "algorithm": item["algorithm"],
        "cost": f"epsilon {epsilon(item['cost']['epsilon'])}{_of(item)}, delta"
        f" {item['cost']['delta']:g}",
        "protects": _whom(item),
        "steps": f"{progress['step']:,} of {progress['of']:,}",
        "submitted": item["created_at"],
    }
    for name, value in facts.items():
        grid.add_row(name, value)
    return grid


def size_of(item: Json) -> str:
    """A dataset's public size: of rows, or of persons."""
    if item.get("rows") is not None:
        return f"{item['rows']:,} rows"
    return f"{item['units']:,} persons"


def datasets(items: Iterable[Json]) -> Table:
    """A table of datasets, one line for each."""
    grid = table("Datasets", "name", "size", "columns", "epsilon", "delta", "status", "id")
    for item in items:
        grid.add_row(
            escape(item["name"]),
            size_of(item),
            str(len(item["columns"])),
            epsilon(item["privacy"]["epsilon"]),
            f"{item['privacy']['delta']:g}",
            item["status"],
            item["id"][:8],
        )
    return grid


def columns(item: Json) -> Table:
    """A dataset's columns with their public bounds, categories and codes."""
    grid = table(f"{escape(item['name'])}, {size_of(item)}", "column", "type", "values")
    for name in (1, 2):
        grid.columns[name].justify = "left"
    grid.columns[2].no_wrap = False
    for column in item["columns"]:
        categories = ", ".join(map(str, column.get("categories", ())))
        values = categories or f"{_bound(column['lower'])} to {_bound(column['upper'])}"
        if column.get("integer"):
            values += "; whole numbers"
        if column.get("spikes"):
            values += f"; spikes: {', '.join(map(_bound, column['spikes']))}"
        if column.get("missing"):
            codes = [] if column["missing"] is True else column["missing"]
            values += f"; none: {', '.join(map(_bound, codes)) or 'empty'}"
        if column.get("description"):
            values += f"\n{column['description']}"
        grid.add_row(escape(column["name"]), column["type"], escape(values))
    return grid


def sources(items: Iterable[Json]) -> Table:
    """A table of sources, each with the tables and queries that it offers."""
    grid = table("sources", "name", "kind", "tables", "queries")
    for column in grid.columns[1:]:
        column.justify, column.no_wrap = "left", False
    for item in items:
        offers = (escape(", ".join(item[name])) or "-" for name in ("tables", "queries"))
        grid.add_row(escape(item["name"]), item["kind"], *offers)
    return grid


def _bound(value: float | str) -> str:
    """A bound or a code: a number, or a date."""
    return value if isinstance(value, str) else f"{value:g}"


def inspected(inspection: Json) -> list[Table]:
    """What is found of a file: its format, and its columns with their first values."""
    parts = []
    if inspection["format"]:
        grid = table("format", "member", "value")
        for name, value in inspection["format"].items():
            grid.add_row(name, escape(json.dumps(value, ensure_ascii=False)))
        parts.append(grid)
    grid = table("columns", "name", "kind", "first values")
    for at, column in enumerate(inspection["columns"]):
        values = ", ".join(row[at] for row in inspection["rows"] if at < len(row))
        kind = f"{column['kind']}{' (skip?)' if column['skip'] else ''}"
        grid.add_row(escape(column["name"]), kind, escape(values))
    return [*parts, grid]


def users(items: Iterable[Json]) -> Table:
    """A table of users, one line for each."""
    grid = table("Users", "name", "role", "keys", "account", "id")
    for item in items:
        keys = [key for key in item.get("keys", ()) if key["revoked_at"] is None]
        account = "[red]closed[/]" if item.get("disabled_at") else "open"
        grid.add_row(escape(item["name"]), item["role"], str(len(keys)), account, item["id"][:8])
    return grid


def access_requests(items: Iterable[Json], datasets: Mapping[str, str] = NO_NAMES) -> Table:
    """A table of access requests, one line for each. datasets: names by ids."""
    grid = table("Access requests", "id", "asked (UTC)", "dataset", "ε", "state")
    for item in items:
        named = item["dataset"] or ""
        dataset = str(datasets.get(named) or item["dataset_name"] or named)
        state = "[bold]open[/]" if item["status"] == "open" else item["status"]
        grid.add_row(
            item["id"][:8],
            item["created_at"][:16],
            escape(dataset[:36]),
            epsilon(item["epsilon"]),
            state,
        )
    return grid


def new_key(item: Json, ends: str | None) -> str:
    """A new key, with the notice that it is shown once, and of when it ends."""
    until = f"It ends on {ends[:10]}." if ends else "It does not end by itself."
    notice = f"This key is shown once. Keep it where nobody else reads it. {until}"
    return f"[bold]{item['key']}[/]\n{notice}"


def ledger(items: Iterable[Json]) -> Table:
    """A table of the entries of a ledger, one line for each."""
    grid = table("Ledger", "#", "at", "kind", "job", "hash")
    for item in items:
        job_id = str(item["job"] or "-")[:8]
        grid.add_row(str(item["seq"]), item["at"][:19], item["kind"], job_id, item["hash"][:16])
    return grid


def audit(items: Iterable[Json]) -> Table:
    """A table of the entries of the audit trail, one line for each."""
    grid = table("Audit trail", "#", "at", "action", "subject")
    grid.columns[2].justify = "left"
    for item in items:
        subject = str(item.get("subject") or "-")[:8]
        grid.add_row(str(item["seq"]), item["at"][:19], item["action"], escape(subject))
    return grid


def verification(item: Json) -> str:
    """Whether a ledger's chain and totals are right."""
    if item["ok"]:
        return f"[green]whole[/]: {item['rows']:,} entries, the last one's hash is {item['head']}"
    return f"[bold red]broken[/]: {escape(str(item['problem']))}"


def shown(answer: Json) -> str:
    """A summary and its verdict as text, in colour where the terminal has any."""
    return text(verdict(answer), summary(answer))


def text(*parts: RenderableType) -> str:
    """Tables and sentences as one text, in colour where the terminal has any."""
    console = Console()
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return captured.get().rstrip()


def summary(answer: Json) -> Table:
    """The posterior, one line for each parameter. Its title carries the verdict."""
    grid = table(
        title_of("Posterior", answer),
        *("parameter", "mean", "sd", "90 % interval", "R-hat", "ESS\nbulk", "ESS\ntail"),
    )
    for row in answer["parameters"]:
        hat = row["r_hat"]
        colour = "green" if hat is not None and hat < MIXED_BELOW else "yellow"
        grid.add_row(
            escape(row["name"]),
            *moments(row),
            "-" if hat is None else f"[{colour}]{hat:.3f}[/]",
            *("-" if row[k] is None else f"{row[k]:.0f}" for k in ("ess_bulk", "ess_tail")),
        )
    return grid


def moments(row: Json) -> tuple[str, str, str]:
    """Mean, sd and the 90 % interval, all rounded to the second digit of the sd."""
    mean, sd, low, high = (_rounded(row[key], row["sd"]) for key in ("mean", "sd", "q05", "q95"))
    return mean, sd, f"{low} .. {high}"


def _rounded(value: float, sd: float) -> str:
    if not sd > 0.0:
        return f"{value:.4g}"
    decimals = 1 - math.floor(math.log10(sd))
    size = math.log10(max(abs(value), sd))
    if decimals > MOST_PLACES or size > MOST_DIGITS:
        return f"{value:.{max(2, min(math.ceil(size) + decimals, 17))}g}"
    return f"{value:.{max(decimals, 0)}f}"


def title_of(text: str, answer: Json) -> str:
    """A title, marked where the result below it is unreliable."""
    verdict = answer.get("verdict")
    unreliable = verdict is not None and verdict["status"] == "unreliable"
    return f"{text} [red](unreliable)[/]" if unreliable else text


@contextmanager
def bar(console: Console, text: str) -> Iterator[Progress]:
    """A progress bar that stays on the screen when it is full."""
    with Progress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=40),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        progress.add_task(text, total=1.0)
        yield progress


@contextmanager
def rows_read(console: Console, name: str) -> Iterator[Callable[[int], None]]:
    """Show how many rows of a snapshot have been read; yields what is to be told of it."""
    with console.status(escape(f"{name}: connecting")) as line:
        yield lambda rows: line.update(escape(f"{name}: {rows:,} rows read"))


class Followed(Protocol):
    """The part of a client that follows a job."""

    def events(self, job: str) -> Iterator[Any]:
        """Yield the events of the job."""

    def wait(self, job: str) -> Json:
        """Return the job when it has ended."""


def follow(client: Followed, console: Console, job: str) -> Json:
    """Show a job's progress from its event stream until it has ended. Returns the job."""
    with bar(console, "sampling") as progress:
        task = progress.task_ids[0]
        for event in client.events(job):
            if event.name == "progress":
                progress.update(task, completed=event.data["step"] / max(1, event.data["of"]))
            elif event.name == "status":
                progress.update(task, description=f"sampling: {status(event.data)}")
        ended = client.wait(job)
        progress.update(task, description=f"sampling: {status(ended)}")
        if ended["status"] == "succeeded":
            progress.update(task, completed=1.0)
    return ended
