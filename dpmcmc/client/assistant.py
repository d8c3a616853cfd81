"""Tools for an assistant that speaks the Model Context Protocol: `dpmcmc mcp`.

The assistant does what the caller's key may do, and of that only what is named here: it sees
datasets and budgets, plans and submits jobs, and reads results. It has a cap of its own, below the
service's: epsilons of its jobs add up in a file, and a job beyond the cap is not sent.
"""

import functools
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from dpmcmc.client.answers import ApiError
from dpmcmc.client.asked import FAMILIES, OF_TWO_COLUMNS
from dpmcmc.client.client import Client
from dpmcmc.client.connection import UnreachedError
from dpmcmc.client.named import UnclearError

try:
    import fcntl
except ImportError:  # no file is locked on this system: run one assistant at a time
    fcntl = None  # type: ignore[assignment]

Json = dict[str, Any]
Given = ParamSpec("Given")
Answer = TypeVar("Answer")
SHOWN = 50  # datasets or jobs of one answer
INSTRUCTIONS = """Regression on tables that nobody sees: answers have noise that protects persons.
Every job costs epsilon of a dataset's budget, which never comes back. Call plan_job first: it is
free, and says what a job costs and how wide its intervals are. Submit a job only when the user has
agreed to its epsilon. A result that is called unreliable must be reported as such."""


class Cap:
    """The most that an assistant's jobs may cost together, and the file that adds them up.

    Their epsilons are added, which is never less than what they cost together. Several processes
    may use one file.

    Parameters
    ----------
    epsilon
        The cap.
    path
        The file, made where there is none.

    Raises
    ------
    ValueError
        Where the cap is no positive number, or the file holds something else.
    """

    def __init__(self, epsilon: float, path: Path) -> None:
        if not 0.0 < epsilon < math.inf:
            raise ValueError("a cap is a positive number")
        self.epsilon, self._path = epsilon, path
        self.take(0.0)

    @property
    def left(self) -> float:
        """What is left of the cap."""
        return self.take(0.0)

    def take(self, epsilon: float) -> float:
        """Add a cost where it fits, and return what is left then; less than 0 where it does not."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(handle, "r+") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            spent = self._spent(file.read())
            rest = self.epsilon - spent - epsilon
            if epsilon and rest >= 0.0:
                file.seek(0)
                file.write(json.dumps({"spent_epsilon": spent + epsilon}))
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
        return rest

    def _spent(self, text: str) -> float:
        if not text:
            return 0.0
        try:
            spent = float(json.loads(text)["spent_epsilon"])
        except (ValueError, TypeError, KeyError):
            spent = math.nan
        if not spent >= 0.0:
            raise ValueError(f"{self._path} does not say what was spent: name another file")
        return spent


def server(client: Client, cap: Cap) -> MCPServer[Any]:
    """The tools, for one caller.

    Parameters
    ----------
    client
        Connected with the caller's key.
    cap
        What the assistant's jobs may cost together.
    """
    mcp: MCPServer[Any] = MCPServer("dpmcmc", instructions=INSTRUCTIONS, log_level="WARNING")
    tools = _Tools(client, cap)
    for tool in (
        tools.list_datasets,
        tools.describe_dataset,
        tools.budget,
        tools.plan_job,
        tools.submit_job,
        tools.list_jobs,
        tools.get_job,
        tools.get_result,
        tools.cancel_job,
    ):
        mcp.tool()(_with_refusals_in_words(tool))
    return mcp


def _with_refusals_in_words(tool: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """The tool with refusals as words for the assistant; other errors tell it nothing."""

    @functools.wraps(tool)
    def call(*args: Given.args, **named: Given.kwargs) -> Answer:
        try:
            return tool(*args, **named)
        except ApiError as error:
            faults = [f"{fault['pointer']}: {fault['message']}" for fault in _errors(error)]
            raise ToolError("\n".join([str(error), *faults])) from None
        except (UnreachedError, UnclearError) as error:
            raise ToolError(str(error)) from None

    return call


def _errors(error: ApiError) -> list[Json]:
    errors: list[Json] = error.problem.get("errors", [])
    return errors


def _family(formula: str, columns: list[Json]) -> str:
    """The usual family of a response's type. Raises ToolError where the response is no column."""
    response = formula.partition("~")[0].strip()
    kinds = {column["name"]: column["type"] for column in columns}
    if response not in kinds:
        raise ToolError(f"The response {response!r} is no column of the dataset: name the family.")
    return FAMILIES[kinds[response]]


class _Tools:
    """What the assistant may call. Docstrings are what it reads."""

    def __init__(self, client: Client, cap: Cap) -> None:
        self._client, self._cap = client, cap

    def list_datasets(self) -> list[Json]:
        """List the datasets that may be used, with their status and what is left of each budget."""
        rest = {
            listed["dataset"]: listed["remaining"]["epsilon"] for listed in self._client.budgets()
        }
        return [
            {
                "id": listed["id"],
                "name": listed["name"],
                "description": listed["description"],
                "status": listed["status"],
                "remaining_epsilon": rest.get(listed["id"]),
            }
            for listed in self._client.datasets()
        ][:SHOWN]

    def describe_dataset(self, dataset: str) -> Json:
        """Columns of a dataset with declared bounds and categories, by its name or id.

        Nothing of this is taken from the rows.
        """
        return self._client.dataset(dataset)

    def budget(self, dataset: str) -> Json:
        """What is spent and left of a dataset's budget, and of this assistant's own cap."""
        budget = self._client.budget(dataset)
        return {**budget, "assistant": self._own()}

    def _own(self) -> Json:
        return {"cap": self._cap.epsilon, "left": self._cap.left}

    def plan_job(
        self, dataset: str, formula: str, epsilon: float, family: str | None = None
    ) -> Json:
        """Say what a regression would cost and bring, from public facts. Free.

        formula: such as "visits ~ age + C(ward)". epsilon: the privacy cost, often .5 to 2. family:
        linear, logistic, poisson, ...; left out, it follows from the response's type.
        """
        plan = self._client.plan(self._job(dataset, formula, epsilon, family))
        return {**plan, "assistant": self._own()}

    def _job(self, dataset: str, formula: str, epsilon: float, family: str | None) -> Json:
        known = self._client.dataset(dataset)
        model: Json = {"formula": formula}
        if family or not OF_TWO_COLUMNS.match(formula):
            model["family"] = family or _family(formula, known["columns"])
        privacy = {"epsilon": epsilon, "delta": known["privacy"]["delta"]}
        return {"dataset": known["id"], "model": model, "privacy": privacy}

    def submit_job(
        self,
        dataset: str,
        formula: str,
        epsilon: float,
        family: str | None = None,
        name: str | None = None,
    ) -> Json:
        """Spend epsilon of a dataset's budget on a regression. It never comes back.

        The user must have agreed to this epsilon. A plan that is not usable or not affordable is
        not sent. What a job costs counts against the assistant's cap even if it fails.
        """
        job = self._job(dataset, formula, epsilon, family)
        plan = self._client.plan(job)
        if not plan["usable"] or not plan["affordable"]:
            why = "; ".join(plan["warnings"]) or "it does not fit into the budget"
            raise ToolError(f"Not sent, nothing was spent: {why}.")
        if self._cap.take(plan["epsilon"]) < 0.0:
            raise ToolError(
                f"Not sent, nothing was spent: the job costs epsilon {plan['epsilon']:.4g}, and"
                f" {self._cap.left:.4g} is left of this assistant's cap of {self._cap.epsilon:g}."
            )
        return self._client.submit(job | ({"name": name} if name else {}))

    def list_jobs(self) -> list[Json]:
        """List the newest jobs of the caller."""
        return self._client.some_jobs(SHOWN)

    def get_job(self, job: str) -> Json:
        """Status, cost and progress of a job, by its id."""
        return self._client.job(job)

    def get_result(self, job: str) -> Json:
        """Summary of a job that succeeded: verdict, explanation in words, estimates, intervals."""
        return dict(self._client.summary(job))

    def cancel_job(self, job: str) -> Json:
        """Cancel a job of the caller. What it has drawn stays paid."""
        return self._client.cancel(job)
