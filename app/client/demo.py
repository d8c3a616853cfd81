"""`./dev demo`: the whole way of a job on real data, in a terminal, in under a minute."""

import gzip
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule

from app.client import render
from app.client.client import ApiError, Client, Json
from app.client.local import Service, local_service

DATA = Path(__file__).resolve().parents[2] / "experiments" / "data"
TOO_MUCH = 5.0  # of a budget of 6, once 4 are spent
INTRODUCTION = """\
[bold]dpmcmc[/] draws posterior samples from sensitive data under differential privacy.

The RAND Health Insurance Experiment, 20,190 rows. Do chronic disease, the size of the family and \
its income decide who sees a doctor?"""


def say(console: Console, text: str) -> None:
    """The title of a step."""
    console.print()
    console.print(Rule(f"[bold]{text}[/]", align="left", style="blue"))


def publish(console: Console, admin: Client) -> Json:
    """Upload the rows with their public promises."""
    say(console, "1  The admin uploads the data and fixes a budget")
    metadata = json.loads((DATA / "randhie.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "randhie.csv"
        rows.write_bytes(gzip.decompress((DATA / "randhie.csv.gz").read_bytes()))
        dataset = admin.upload(rows, metadata)
    names = ", ".join(column["name"] for column in metadata["columns"])
    console.print(f"{dataset['rows']:,} rows, stored encrypted. Columns: {names}")
    console.print(render.budgets([{**admin.budget(dataset["id"]), "name": metadata["name"]}]))
    return dataset


def ask_for_plan(console: Console, analyst: Client, job: Json) -> None:
    """Show what the job would cost and bring before anything is spent."""
    say(console, "2  An analyst asks what a logistic regression would cost")
    console.print(f"[cyan]{job['model']['formula']}[/]  at epsilon {job['privacy']['epsilon']:g}")
    plan = analyst.plan(job)
    console.print(render.plan(plan))
    for warning in plan["warnings"]:
        console.print(f"[yellow]note:[/] {warning}")


def sample(console: Console, analyst: Client, job: Json) -> None:
    """Submit, follow, and show the posterior beside what it cost."""
    say(console, "3  The job pays first, then it samples")
    submitted = analyst.submit(job)
    ended = render.follow(analyst, console, submitted["id"])
    if ended["status"] != "succeeded":
        raise RuntimeError(f"the job {ended['status']}")
    console.print(render.summary(analyst.summary(ended["id"])))
    cost = ended["cost"]
    console.print(
        f"cost: [bold]epsilon {cost['epsilon']:.4g}[/], delta {cost['delta']:g},"
        f" that is mu {cost['mu']:.4g}"
    )


def show_budget(console: Console, analyst: Client, dataset: Json) -> None:
    """Spent, reserved and left."""
    say(console, "4  What is left of the budget")
    budget = analyst.budget(dataset["id"])
    console.print(render.budgets([{**budget, "name": dataset["name"]}]))
    console.print(
        render.budget_bar(budget),
        f"spent {budget['spent']['epsilon']:.3g} of {budget['epsilon']:g};"
        f" {budget['remaining']['epsilon']:.3g} left for one more release"
        " (costs compose, they do not add up)",
    )


def ask_too_much(console: Console, analyst: Client, job: Json) -> None:
    """A dearer job does not fit any more. Raises RuntimeError where it is not refused."""
    say(console, "5  A job beyond the budget is refused")
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


def walk(console: Console, service: Service) -> None:
    """All five steps against a running service."""
    job: dict[str, Any] = json.loads((DATA / "job.json").read_text(encoding="utf-8"))
    with Client(service.url, service.admin_key) as admin:
        dataset = publish(console, admin)
        key = admin.create_user("demo analyst", "analyst")["key"]
    job["dataset"] = dataset["id"]
    with Client(service.url, key) as analyst:
        ask_for_plan(console, analyst, job)
        sample(console, analyst, job)
        show_budget(console, analyst, dataset)
        ask_too_much(console, analyst, job)


def main() -> None:
    """Start a service in a folder of its own, walk through it and stop it."""
    console = Console(highlight=False)
    started = time.monotonic()
    console.print(Panel(INTRODUCTION, border_style="blue", width=min(100, console.width)))
    with tempfile.TemporaryDirectory(prefix="dpmcmc-demo-") as folder, ExitStack() as running:
        with console.status("starting the service"):
            service = running.enter_context(local_service(Path(folder)))
        walk(console, service)
    console.print()
    console.print(
        f"[green]done in {time.monotonic() - started:.0f} s[/];"
        " everything it wrote is gone. Next: ./dev serve"
    )


if __name__ == "__main__":
    main()
