"""`./dev demo`: a job from upload to result on real data, in a terminal, in twenty seconds."""

import csv
import gzip
import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule

from app.local_service import Service, local_service
from dpmcmc.client import forest, render
from dpmcmc.client.answers import ApiError, Json
from dpmcmc.client.client import Client
from dpmcmc.client.forest import Effect

# The demo's data are public: what a logistic regression finds in them without any privacy.
STEPS = 12  # of Newton's method, which doubles the digits that are right


Bounds = Mapping[str, tuple[float, float]]


def coefficients(file: Path, formula: str, bounds: Bounds) -> dict[str, float]:
    """Return maximum likelihood estimates by column, each of one unit of it.

    file: a gzipped CSV. formula: `response ~ a + b`, of a yes or no and of columns of numbers.
    bounds: of each column, to which it is clamped as the service does.
    """
    response, names = (
        formula.split("~")[0].strip(),
        formula.split("~")[1].replace(" ", "").split("+"),
    )
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    y = np.array([row[response] == "yes" for row in rows], np.float64)
    columns = [np.clip([float(row[name]) for row in rows], *bounds[name]) for name in names]
    x = np.column_stack((np.ones(len(y)), *columns))
    scale = np.abs(x).max(axis=0)
    x /= scale
    theta = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = 1.0 / (1.0 + np.exp(-x @ theta))
        curvature = (x * (p * (1.0 - p))[:, None]).T @ x
        theta += np.linalg.solve(curvature, x.T @ (y - p))
    return dict(zip(["Intercept", *names], (theta / scale).tolist(), strict=True))


ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "experiments" / "data"
PICTURE = ROOT / "var" / "demo.png"
ALONE = {"DPMCMC_PLANNERS": "1", "DPMCMC_WORKER_CONCURRENCY": "1"}  # of who asks
EPSILON, TOO_MUCH = 1.0, 6.0  # of a budget of 6
EFFECTS = (  # name, what one more of it is called, and how much that is in units of the column
    ("chronic", "each chronic condition", 1.0),
    ("family_size", "each further member of the family", 1.0),
    ("income", "each further $1,000 of income", 1000.0),
)
INTRODUCTION = """\
[bold]dpmcmc[/] draws posterior samples from sensitive data under differential privacy.

The RAND Health Insurance Experiment: 5,912 persons, followed for up to five years. Do chronic \
disease, the size of the family and its income decide who sees a doctor?"""


def say(console: Console, text: str) -> None:
    """Print the title of a step."""
    console.print()
    console.print(Rule(f"[bold]{text}[/]", align="left", style="blue"))


def publish(console: Console, admin: Client) -> Json:
    """Upload the rows with their declared schema."""
    say(console, "1  The admin uploads the data and fixes a budget")
    metadata = json.loads((DATA / "randhie.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "randhie.csv"
        rows.write_bytes(gzip.decompress((DATA / "randhie.csv.gz").read_bytes()))
        dataset = admin.upload(rows, metadata)
    names = ", ".join(column["name"] for column in metadata["columns"])
    console.print(f"{render.size_of(dataset)}, stored encrypted. Columns: {names}")
    console.print(render.budgets([{**admin.budget(dataset["id"]), "name": metadata["name"]}]))
    return dataset


def ask_for_plan(console: Console, analyst: Client, job: Json) -> None:
    """Show the plan's cost and expected quality before spending."""
    say(console, "2  An analyst asks what a logistic regression would cost")
    console.print(f"[cyan]{job['model']['formula']}[/]  at epsilon {job['privacy']['epsilon']:g}")
    plan = analyst.plan(job)
    console.print(render.plan(plan))
    for reason in plan["reasons"]:
        console.print(f"[blue]chosen:[/] {reason}")
    for warning in plan["warnings"]:
        console.print(f"[yellow]note:[/] {warning}")


def sample(console: Console, analyst: Client, job: Json) -> Json:
    """Submit the job, wait, and show the posterior with its cost. Returns the summary."""
    say(console, "3  The job pays first, then it samples")
    submitted = analyst.submit(job)
    ended = render.follow(analyst, console, submitted["id"])
    if ended["status"] != "succeeded":
        raise RuntimeError(f"the job {ended['status']}")
    answer = analyst.summary(ended["id"])
    console.print(render.summary(answer))
    console.print(render.verdict(answer))
    cost = ended["cost"]
    console.print(
        f"cost: [bold]epsilon {cost['epsilon']:.4g}[/], delta {cost['delta']:g},"
        f" that is mu {cost['mu']:.4g}"
    )
    return answer


def show_answer(console: Console, answer: Json, job: Json, dataset: Json) -> None:
    """Show the result in words, with the non-private fit of these public data.

    answer: a summary on the original scale, where a coefficient is of one unit of its column.
    """
    say(console, "4  The answer")
    rows = {row["name"]: row for row in answer["parameters"]}
    numbers = [column for column in dataset["columns"] if column["type"] == "number"]
    bounds = {column["name"]: (column["lower"], column["upper"]) for column in numbers}
    exact = coefficients(DATA / "randhie.csv.gz", job["model"]["formula"], bounds)
    effects = []
    for name, words, amount in EFFECTS:
        low, middle, high = (math.exp(amount * rows[name][key]) for key in ("q05", "q50", "q95"))
        effects.append(Effect(name, low, middle, high, math.exp(amount * exact[name])))
        console.print(
            f"{words} multiplies the odds of a visit by [bold]{middle:.3f}[/]"
            f" (90 % interval {low:.3f} to {high:.3f})"
        )
    title = "Odds ratios, 90 % intervals"
    console.print(f"\n[bold]{render.title_of(title, answer)}[/]", highlight=False)
    for line in forest.text(effects, min(76, console.width)):
        console.print(line, markup=False)
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(forest.png(effects, title, answer["verdict"]))
    console.print("x marks the fit without privacy, which is known: these data are public.")
    console.print(f"As a picture: {PICTURE}", soft_wrap=True)


def show_budget(console: Console, analyst: Client, dataset: Json) -> None:
    """Show the budget: spent, reserved and left."""
    say(console, "5  What is left of the budget")
    budget = analyst.budget(dataset["id"])
    console.print(render.budgets([{**budget, "name": dataset["name"]}]))
    console.print(
        render.budget_bar(budget),
        f"spent {budget['spent']['epsilon']:.3g} of {budget['epsilon']:g};"
        f" {budget['remaining']['epsilon']:.3g} left for one more release"
        " (costs compose, they do not add up)",
    )


def ask_too_much(console: Console, analyst: Client, job: Json) -> None:
    """Submit a job over the budget. Raises RuntimeError where it is accepted."""
    say(console, "6  A job beyond the budget is refused")
    try:
        analyst.submit({**job, "privacy": {**job["privacy"], "epsilon": TOO_MUCH}})
    except ApiError as refusal:
        if refusal.code != "budget_exhausted":
            raise
        requested, remaining = (
            refusal.problem[word]["epsilon"] for word in ("requested", "remaining")
        )
        console.print(
            f"[red]{refusal.status} {refusal.code}[/]: asked for epsilon {requested:.4g},"
            f" {remaining:.4g} remains"
        )
        return
    raise RuntimeError("a job beyond the budget was accepted")


def show_dashboard(console: Console, service: Service, key: str) -> None:
    """Print the dashboard's address and a key; on a terminal, wait until Enter is pressed."""
    say(console, "7  The same in the browser")
    console.print(f"dashboard: [bold]{service.url}[/]\nAPI key: {key}", soft_wrap=True)
    if sys.stdin.isatty() and console.is_terminal:
        console.input("[blue]Enter stops the service[/] ")
    else:
        console.print("(it stops with this demo; ./dev serve starts one that stays)")


def walk(console: Console, service: Service, started: float) -> None:
    """Run all steps against a running service."""
    job: dict[str, Any] = json.loads((DATA / "job.json").read_text(encoding="utf-8"))
    job["privacy"]["epsilon"] = EPSILON
    with Client(service.url, service.admin_key) as admin:
        dataset = publish(console, admin)
        key = admin.create_user("demo analyst", "analyst")["key"]
    job["dataset"] = dataset["id"]
    with Client(service.url, key) as analyst:
        ask_for_plan(console, analyst, job)
        answer = sample(console, analyst, job)
        show_answer(console, answer, job, dataset)
        show_budget(console, analyst, dataset)
        ask_too_much(console, analyst, job)
        console.print(f"\n[green]done in {time.monotonic() - started:.0f} s[/]")
        show_dashboard(console, service, key)


def main() -> None:
    """Start a service in a temporary folder, run the demo and stop it."""
    console = Console(highlight=False)
    started = time.monotonic()
    console.print(Panel(INTRODUCTION, border_style="blue", width=min(100, console.width)))
    with tempfile.TemporaryDirectory(prefix="dpmcmc-demo-") as folder, ExitStack() as running:
        with console.status("starting the service (the first time it compiles, for minutes)"):
            service = running.enter_context(local_service(Path(folder), ALONE))
        walk(console, service, started)
    console.print("All but the picture is gone. Next: ./dev serve")


if __name__ == "__main__":
    main()
