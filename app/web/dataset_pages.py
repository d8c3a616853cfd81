"""Datasets and what is left of their budgets."""

import asyncio
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app.web import names
from app.web.forms import NotReadError, number, problem_of, reason_of
from app.web.inside import Id, Json, RefusedError
from app.web.session import Session, Signed, fields_of
from app.web.shown import page, protected

router = APIRouter(include_in_schema=False)
ENTRIES = 100  # of a ledger that a page shows
OVERSEERS = ("admin", "auditor")


@router.get("/datasets", response_class=HTMLResponse)
async def datasets(request: Request, signed: Signed) -> HTMLResponse:
    """All datasets with their budgets."""
    listed, budgets = await asyncio.gather(
        signed.api.items("/v1/datasets"), signed.api.items("/v1/budget", job_epsilon=1)
    )
    values: Json = {"budgets": {budget["dataset"]: shares_of(budget) for budget in budgets}}
    if signed.role == "admin":
        users = await signed.api.items("/v1/users")
        values["analysts"] = [user for user in users if user["role"] == "analyst"]
    return page(request, "datasets.html", signed, datasets=listed, **values)


@router.get("/datasets/{id}", response_class=HTMLResponse)
async def dataset(request: Request, signed: Signed, id: Id, cursor: str = "") -> HTMLResponse:
    """One dataset: its budget and how it went, columns, and for overseers the ledger."""
    return await show(request, signed, id, cursor=cursor)


async def show(
    request: Request, signed: Session, id: str, status: int = 200, cursor: str = "", **more: Any
) -> HTMLResponse:
    """Return the page of one dataset. cursor: of its ledger. more: what it tells besides."""
    dataset, budgets, own = await asyncio.gather(
        signed.api.get(f"/v1/datasets/{id}"),
        signed.api.items("/v1/budget"),
        signed.api.get(f"/v1/datasets/{id}/budget", job_epsilon=1),
    )
    of = {budget["dataset"]: budget for budget in budgets}
    budget = of[dataset["id"]]
    values: dict[str, Any] = {
        "cursor": cursor,
        "dataset": dataset,
        "budget": shares_of(own),
        "holders": of,
    }
    if signed.role in OVERSEERS:
        values["ledger"] = await signed.api.get(
            f"/v1/datasets/{id}/ledger", limit=ENTRIES, cursor=cursor
        )
    if signed.role == "auditor":
        values["users"] = await names.of_users(signed)
    if signed.role == "admin":
        users = await signed.api.items("/v1/users")
        values["users"] = {user["id"]: user["name"] for user in users}
        values["analysts"] = [user for user in users if user["role"] == "analyst"]
    return page(request, "dataset.html", signed, status, curve=curve(budget), **values, **more)


@router.get("/datasets/{id}/dummy.csv")
async def dummy(signed: Signed, id: Id) -> Response:
    """Rows made from the declared bounds and categories alone, as a file."""
    headers = {"Content-Disposition": f'attachment; filename="dummy-{id[:8]}.csv"'}
    return signed.api.file(f"/v1/datasets/{id}/dummy", "text/csv", headers)


@router.post("/datasets/{id}", response_model=None)
async def amend(request: Request, signed: Signed, id: Id) -> Response:
    """Raise a budget, or archive the dataset: each is an entry of the ledger.

    What weakens a promise or stops jobs is shown first, in words, and asks for a reason.
    """
    form = await fields_of(request)
    wanted: Json = {}
    try:
        epsilon = number(form, "epsilon", "/privacy/epsilon")
        if epsilon is not None:
            wanted["privacy"] = {"epsilon": epsilon}
        if form.get("archived") in ("true", "false"):
            wanted["archived"] = form["archived"] == "true"
        if form.get("available") == "true":
            wanted["available"] = True
        follows = await follows_of(signed, id, wanted)
        if follows:
            reason = reason_of(form)
            if reason is None:
                names = ("epsilon", "archived")
                asked = Asked(
                    f"/datasets/{id}", follows, {name: form.get(name, "") for name in names}
                )
                return await show(request, signed, id, asked=asked)
            wanted["reason"] = reason
        await signed.api.send("PATCH", f"/v1/datasets/{id}", json=wanted)
    except (NotReadError, RefusedError) as error:
        return await show(request, signed, id, 422, problem=problem_of(error))
    return RedirectResponse(f"/datasets/{id}", status_code=303)


@router.post("/datasets/{id}/verify", response_class=HTMLResponse)
async def verify(request: Request, signed: Signed, id: Id) -> HTMLResponse:
    """Recompute the ledger's chain and totals, and say what was found."""
    verification = await signed.api.json("POST", f"/v1/datasets/{id}/ledger/verify")
    return page(request, "verified.html", signed, found=verification)


@dataclass(frozen=True)
class Asked:
    """An act that is asked about before it is done: what follows from it, and its form's fields."""

    action: str
    follows: list[str]
    fields: dict[str, str]


async def follows_of(signed: Session, id: str, wanted: Json) -> list[str]:
    """What a change does that cannot be undone, in sentences. Raises NotReadError."""
    follows = []
    if "privacy" in wanted:
        new = wanted["privacy"]["epsilon"]
        try:
            budget = await signed.api.get(
                f"/v1/datasets/{id}/budget", job_epsilon=1, raised_to=repr(new)
            )
        except RefusedError as error:
            problem = problem_of(error)
            faults = problem["faults"]
            message = faults[0]["message"] if faults else problem["told"]
            raise NotReadError("/privacy/epsilon", message) from None
        if new > budget["epsilon"]:
            follows += _raised(budget)
    if wanted.get("archived") is True:
        follows.append(
            "No further job is taken. Jobs that wait are cancelled and not charged; what was"
            " released stays."
        )
    return follows


def _raised(budget: Json) -> list[str]:
    raised = budget["raised"]
    weak = [warning["detail"] for warning in raised["warnings"]]
    return [
        f"The budget goes from epsilon {budget['epsilon']:.4g} to {raised['epsilon']:.4g}: that is"
        f" what all results together may tell about {protected(budget['protects'])}. About"
        f" {raised['jobs_left']:,} further analyses of epsilon 1 will fit;"
        f" {budget['jobs_left']:,} fit now.",
        "It can never be lowered again. To raise it after results were seen weakens what was"
        " promised to the people in the rows.",
        *(f"{detail[0].upper()}{detail[1:]}." for detail in weak),
    ]


def shares_of(budget: Json) -> Json:
    """Return a budget with the parts of a bar that shows it, in per cent.

    Costs compose in mu^2: that is what adds up to the whole. spent: posted and reserved.
    """
    spent, total = budget["mu_spent"], budget["mu_total"]
    used = 100.0 if spent is None else min(100.0, 100.0 * spent**2 / total**2)
    return {**budget, "used": round(used, 2), "left": round(100.0 - used, 2)}


def curve(budget: Json) -> Json:
    """Return the epsilon spent after each ledger entry, for the plot of the budget."""
    steps = [0.0, *(step["epsilon_after"] for step in budget["history"])]
    return {"after": steps, "budget": budget["epsilon"]}
