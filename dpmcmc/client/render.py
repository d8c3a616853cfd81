"""Answers of the service as tables for a terminal."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich import box
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

Json = dict[str, Any]

COLOURS = {"reliable": "green", "unreliable": "red", "succeeded": "green", "failed": "red"}
SHOWN = 10  # values of a statistic
MOST_PLACES, MOST_DIGITS = 6, 9  # of a number without an exponent, behind its point and before it
MIXED_BELOW = 1.01  # a chain whose R-hat is above this has not mixed by the usual standard


def epsilon(value: float | None) -> str:
    """An epsilon at the precision that a person compares with."""
    return "-" if value is None else f"{value:.4g}"


def table(title: str, *columns: str) -> Table:
    """A table of the house's style: text to the left in the first column, numbers to the right."""
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    made.padding, made.pad_edge = (0, 1, 0, 0), False
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index else "left", no_wrap=index > 0)
    made.columns[0].overflow = "fold"  # a long name is broken, never a number
    return made


def budget_bar(budget: Json, width: int = 40) -> str:
    """Spent, reserved and remaining, each as its share of their sum, as one line of blocks."""
    amounts = [budget[kind]["epsilon"] or 0.0 for kind in ("spent", "reserved", "remaining")]
    whole = sum(amounts) or 1.0
    spent, held = (round(width * amount / whole) for amount in amounts[:2])
    held = min(held, width - spent)
    left = width - spent - held
    return f"[red]{'█' * spent}[/][yellow]{'█' * held}[/][green]{'█' * left}[/]"


def budgets(items: Iterable[Json]) -> Table:
    """One line for each dataset."""
    made = table("Privacy budgets", "dataset", "epsilon", "delta", "spent", "reserved", "remaining")
    for item in items:
        made.add_row(
            escape(str(item.get("name") or item["dataset"])),
            epsilon(item["epsilon"]),
            f"{item['delta']:g}",
            *(epsilon(item[kind]["epsilon"]) for kind in ("spent", "reserved", "remaining")),
        )
    return made


def plan(answer: Json) -> Table:
    """What a job would cost and bring."""
    made = table("The plan (public facts only, nothing spent)", "", "")
    made.show_header = False
    left = answer["remaining_after"]["epsilon"]
    made.add_row("cost", f"epsilon {epsilon(answer['epsilon'])}, delta {answer['delta']:g}")
    made.add_row("algorithm", str(answer.get("algorithm", "-")))
    made.add_row("chains x steps", f"{answer['num_chains']} x {answer['num_steps']:,}")
    made.add_row("noise multiplier", f"{answer['noise_multiplier']:.4g}")
    if answer["expected_ess"] is not None:
        made.add_row("expected ESS", f"{answer['expected_ess']:,.0f}")
    if answer.get("expected_width") is not None:
        made.add_row("expected width", f"{answer['expected_width']:.3g} times the posterior's")
    made.add_row("left afterwards", f"epsilon {epsilon(left)}")
    made.add_row("affordable", "[green]yes[/]" if answer["affordable"] else "[red]no[/]")
    if not answer.get("usable", True):
        made.add_row("usable", "[red]no[/]: it would be refused without --accept-low-quality")
    return made


def verdict(answer: Json) -> str:
    """Whether a result may be believed: the word in colour, and the sentence."""
    told = answer.get("verdict")
    if not told:
        return "[yellow]not judged[/]: this job ran before results were"
    word, _, rest = told["sentence"].partition(":")
    notes = [f"\n[yellow]note:[/] {escape(note['sentence'])}" for note in told.get("notes", [])]
    return f"[bold {COLOURS[told['status']]}]{word}[/]:{escape(rest)}{''.join(notes)}"


def status(job: Json) -> str:
    """A job's status in colour, and beside it that its result is unreliable."""
    shown = f"[{COLOURS.get(job['status'], 'yellow')}]{job['status']}[/]"
    told = job.get("verdict")
    return shown if not told else f"{shown}, [{COLOURS[told['status']]}]{told['status']}[/]"


def jobs(items: Iterable[Json]) -> Table:
    """One line for each job, with as much of the id as commands need."""
    made = table("Jobs", "id", "formula", "algorithm", "epsilon", "status")
    made.columns[1].justify = made.columns[2].justify = made.columns[4].justify = "left"
    made.columns[1].overflow, made.columns[1].no_wrap = "fold", False
    for item in items:
        formula = what(item)
        cost = epsilon(item["cost"]["epsilon"])
        made.add_row(item["id"][:8], escape(formula), item["algorithm"], cost, status(item))
    return made


def what(job: Json) -> str:
    """What a job is of: its formula, or the columns of its task."""
    spec = job.get("spec") or {}
    if "task" not in spec:
        return str(spec.get("model", {}).get("formula", "-"))
    task, found = spec["task"], list[str]()
    for one in task.get("statistics", [task]):
        found += one.get("columns") or ([one["column"]] if "column" in one else [])
    return ", ".join(dict.fromkeys(found)) or "all columns"


def result(answer: Json) -> Table:
    """What a task released."""
    if answer["kind"] == "summaries":
        made = table("Summaries", "", "estimate", "lower", "upper")
        for one in answer["estimates"]:
            numbers = (f"{one[key]:.4g}" for key in ("estimate", "lower", "upper"))
            made.add_row(escape(one["name"]), *numbers)
        return made
    made = table(f"The {answer['kind']} task", "", "")
    made.show_header = False
    if answer["kind"] == "synthetic":
        facts = {
            "tables": f"{answer['tables']} of {answer['rows']:,} rows",
            "columns": ", ".join(answer["columns"]),
            "noise": f"sd {answer['noise_sd']:.3g} rows in each count",
        }
    elif answer["kind"] == "two_stages":
        facts = {"chosen power": f"{answer['power']:.4g}"}
        for number, one in enumerate(answer["stages"], start=1):
            own = _statistic(one)
            facts |= {f"stage {number}, {name}": value for name, value in own.items()}
    else:
        facts = _statistic(answer)
    for name, value in facts.items():
        made.add_row(name, escape(value))
    return made


def _statistic(released: Json) -> dict[str, str]:
    values = [f"{value:.6g}" for value in released["values"][:SHOWN]]
    return {
        "values": ", ".join(values) + (" ..." if len(released["values"]) > SHOWN else ""),
        "form": f"{released['form']}, {released['rows']:,} rows",
        "noise": ", ".join(f"{key} {value}" for key, value in released["noise"].items()),
    }


def inference(answer: Json) -> Table:
    """A family's number, given a released statistic."""
    made = table(f"By {answer['algorithm']}", "", "mean", "sd", "90 % interval", "R-hat", "ESS")
    one = answer["parameter"]
    mixing = (
        "" if one[key] is None else f"{one[key]:.{digits}g}"
        for key, digits in (("r_hat", 4), ("ess_bulk", 3))
    )
    made.add_row(escape(one["name"]), *moments(one), *mixing)
    return made


def job(item: Json) -> Table:
    """One job: what was asked, what it costs, how far it is."""
    made = table(f"Job {item['id']}", "", "")
    made.show_header = False
    spec = item.get("spec") or {}
    family = spec.get("model", {}).get("family", item["kind"])
    made.columns[1].justify, made.columns[1].no_wrap = "left", False
    done = item["progress"]
    facts = {
        "status": status(item),
        "dataset": item["dataset"],
        "model": escape(f"{family}: {what(item)}"),
        "algorithm": item["algorithm"],
        "cost": f"epsilon {epsilon(item['cost']['epsilon'])}, delta {item['cost']['delta']:g}",
        "steps": f"{done['step']:,} of {done['of']:,}",
        "submitted": item["created_at"],
    }
    for name, value in facts.items():
        made.add_row(name, value)
    return made


def datasets(items: Iterable[Json]) -> Table:
    """One line for each dataset."""
    made = table("Datasets", "name", "rows", "columns", "epsilon", "delta", "status", "id")
    for item in items:
        made.add_row(
            escape(item["name"]),
            f"{item['rows']:,}",
            str(len(item["columns"])),
            epsilon(item["privacy"]["epsilon"]),
            f"{item['privacy']['delta']:g}",
            item["status"],
            item["id"][:8],
        )
    return made


def columns(item: Json) -> Table:
    """A dataset's columns with what is public of them."""
    made = table(f"{escape(item['name'])}, {item['rows']:,} rows", "column", "type", "values")
    for name in (1, 2):
        made.columns[name].justify = "left"
    made.columns[2].no_wrap = False
    for column in item["columns"]:
        words = ", ".join(map(str, column.get("categories", ())))
        values = words or f"{column['lower']:g} to {column['upper']:g}"
        if column.get("integer"):
            values += "; whole numbers"
        if column.get("spikes"):
            values += f"; spikes: {', '.join(f'{one:g}' for one in column['spikes'])}"
        if column.get("missing"):
            values += f"; none: {', '.join(f'{code:g}' for code in column['missing'])}"
        made.add_row(escape(column["name"]), column["type"], escape(values))
    return made


def users(items: Iterable[Json]) -> Table:
    """One line for each user."""
    made = table("Users", "name", "role", "keys", "account", "id")
    for item in items:
        keys = [one for one in item.get("keys", ()) if one["revoked_at"] is None]
        account = "[red]closed[/]" if item.get("disabled_at") else "open"
        made.add_row(escape(item["name"]), item["role"], str(len(keys)), account, item["id"][:8])
    return made


def new_key(item: Json) -> str:
    """A key that is shown once."""
    return f"[bold]{item['key']}[/]\nThis key is shown once. Keep it where nobody else reads it."


def ledger(items: Iterable[Json]) -> Table:
    """One line for each entry."""
    made = table("Ledger", "#", "at", "kind", "job", "hash")
    for item in items:
        job_id = str(item["job"] or "-")[:8]
        made.add_row(str(item["seq"]), item["at"][:19], item["kind"], job_id, item["hash"][:16])
    return made


def audit(items: Iterable[Json]) -> Table:
    """One line for each administrative act."""
    made = table("Audit trail", "#", "at", "action", "subject")
    made.columns[2].justify = "left"
    for item in items:
        subject = str(item.get("subject") or "-")[:8]
        made.add_row(str(item["seq"]), item["at"][:19], item["action"], escape(subject))
    return made


def verification(item: Json) -> str:
    """Whether a ledger is whole."""
    if item["ok"]:
        return f"[green]whole[/]: {item['rows']:,} entries, the last one's hash is {item['head']}"
    return f"[bold red]broken[/]: {escape(str(item['problem']))}"


def shown(answer: Json) -> str:
    """A summary and its verdict as text, in colour where the terminal has any."""
    return text(verdict(answer), summary(answer))


def text(*parts: RenderableType) -> str:
    """What is shown on a terminal as text, in colour where it has any."""
    console = Console()
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return captured.get().rstrip()


def summary(answer: Json) -> Table:
    """The posterior, one line for each parameter. Its title carries the verdict."""
    made = table(
        title_of("Posterior", answer),
        *("parameter", "mean", "sd", "90 % interval", "R-hat", "ESS\nbulk", "ESS\ntail"),
    )
    for row in answer["parameters"]:
        hat = row["r_hat"]
        colour = "green" if hat is not None and hat < MIXED_BELOW else "yellow"
        made.add_row(
            escape(row["name"]),
            *moments(row),
            "-" if hat is None else f"[{colour}]{hat:.3f}[/]",
            *("-" if row[k] is None else f"{row[k]:.0f}" for k in ("ess_bulk", "ess_tail")),
        )
    return made


def moments(row: Json) -> tuple[str, str, str]:
    """Mean, sd and the 90 % interval, all to the second digit of the sd: what is below is noise."""
    mean, sd, low, high = (_rounded(row[key], row["sd"]) for key in ("mean", "sd", "q05", "q95"))
    return mean, sd, f"{low} .. {high}"


def _rounded(value: float, sd: float) -> str:
    if not sd > 0.0:
        return f"{value:.4g}"
    places = 1 - math.floor(math.log10(sd))
    size = math.log10(max(abs(value), sd))
    if places > MOST_PLACES or size > MOST_DIGITS:
        return f"{value:.{max(2, min(math.ceil(size) + places, 17))}g}"
    return f"{value:.{max(places, 0)}f}"


def title_of(text: str, answer: Json) -> str:
    """A title, marked where what stands below it is unreliable."""
    told = answer.get("verdict")
    unreliable = told is not None and told["status"] == "unreliable"
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


class Followed(Protocol):
    """A client, as far as a job is followed."""

    def events(self, job: str) -> Iterator[Any]:
        """Yield what the job's stream tells."""

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
