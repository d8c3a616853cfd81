"""Questions to a stored release on the command line, against answers of the service itself."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from app.services.results.fetch import Kept
from app.services.results.posteriors import FREE, EffectAsked, Question, free_answer
from dpmcmc import CoefficientPrior, ModelSpec, NumberColumn, Schema, sample
from dpmcmc.client import Client, posteriors
from dpmcmc.client.cli import app
from dpmcmc.inputs.schema import BinaryColumn
from tests.peers import QuietHandler, served
from tests.sources import Seeded

ROWS = 4000
SCHEMA = Schema(
    columns=(
        NumberColumn(name="dose", lower=0.0, upper=10.0),
        BinaryColumn(name="cured", categories=("no", "yes")),
    ),
    rows=ROWS,
)
HALF = CoefficientPrior(kind="laplace", scale=1.0, lower=0.0)


def asked(**parts: Any) -> dict[str, Any]:
    """What the service answers."""
    random = np.random.default_rng(1)
    dose = random.uniform(0, 10, ROWS)
    cured = np.where(random.random(ROWS) < 1 / (1 + np.exp(2 - 0.5 * dose)), "yes", "no")
    model = ModelSpec(family="logistic", formula="cured ~ dose")
    rows: Any = {"dose": dose, "cured": cured}
    job = {"schema": SCHEMA, "model": model, "epsilon": 4.0, "delta": 1e-6}
    result = sample(rows, **job, random=Seeded(1))
    assert result.release is not None
    kept = Kept(SCHEMA, result.plan.spec, result.release.to_dict())
    head = {"job": "j", "cost": {"epsilon": 0.0}, "note": FREE}
    answer = free_answer(kept, Question(num_draws=50, **parts), head)
    assert isinstance(answer, bytes), asdict(answer)
    found: dict[str, Any] = json.loads(answer)
    return found


JOB = "c90062d1-0d3c-4ad5-9c7a-2f54e3a0b1aa"
ANSWER = asked(
    prior={"dose": HALF},
    given=[{"dose": 5}],
    contrasts=[{"dose": 2.0}],
    comparisons=[({"dose": 8}, {"dose": 2})],
    effects=[EffectAsked("dose", [{"dose": 5}], None, None)],
    null=[{"dose": 0.0}],
    models=["cured ~ 1"],
)
SELECTED = asked(prior="spike_and_slab()")


class Handler(QuietHandler):
    """Answers as the service does, and remembers the questions."""

    questions: list[dict[str, Any]]

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        type(self).questions.append(json.loads(self.rfile.read(length)))
        csv = self.headers["Accept"] == "text/csv"
        body = b"chain,draw\n" if csv else json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/csv" if csv else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def peer() -> Iterator[str]:
    Handler.questions = []
    with served(Handler) as address:
        yield address


def ran(peer: str, tmp_path: Path, *more: str) -> str:
    question = tmp_path / "question.json"
    question.write_text('{"given": [{"dose": 5}]}')
    line = ["--url", peer, "--key", "k", "posterior", JOB, str(question), *more]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    assert Handler.questions[-1] == {"given": [{"dose": 5}]}
    return done.output


def test_an_answer_is_shown_part_by_part_with_its_verdict(peer: str, tmp_path: Path) -> None:
    shown = ran(peer, tmp_path)
    for part in (
        "Posterior",
        "Mean response",
        "Contrasts",
        "Differences in mean response",
        "Ratios of odds",
        "dose, per unit",
        "Bayes factors",
        "the larger model",
        "Models",
        "cured ~ 1",
        "Reliable:",
        "Nothing is charged",
    ):
        assert part in shown, part


def test_probabilities_to_act_are_shown() -> None:
    console = Console(width=200)
    with console.capture() as shown:
        console.print(*posteriors.tables(SELECTED))
    assert "Probabilities to act" in shown.get()


def test_a_response_of_several_categories_is_shown_by_their_probabilities() -> None:
    empty = dict.fromkeys(("predictor", "expected", "response", "ratio"))
    spread = ANSWER["summary"][0]
    shares = {"red": spread, "blue": spread}
    one = {**empty, "given": {"dose": 5}, "probabilities": shares}
    answer = ANSWER | {
        "predictions": [one],
        "comparisons": [{**one, "against": {"dose": 4}, "multiplies": ""}],
        "effects": [{**one, "covariate": "dose", "value": None, "against": None}],
    }
    told = {made.title: list(made.columns[0].cells) for made in posteriors.tables(answer)}
    assert told["Mean response"] == ["red: dose 5", "blue: dose 5"]
    assert told["Differences in mean response"][1] == "blue: dose 5 against dose 4"
    assert told["Effects on the mean response"][0] == "red: dose, per unit"
    assert not any(title.startswith("Ratios") for title in told)


def test_an_answer_may_be_had_as_it_came(peer: str, tmp_path: Path) -> None:
    assert json.loads(ran(peer, tmp_path, "--json"))["priors"] == ANSWER["priors"]


def test_draws_are_saved_in_the_format_that_is_named(peer: str, tmp_path: Path) -> None:
    ran(peer, tmp_path, "--output", str(tmp_path / "draws.csv"), "--form", "csv")
    assert (tmp_path / "draws.csv").read_bytes() == b"chain,draw\n"


def test_the_client_asks_and_saves(peer: str) -> None:
    with Client(peer, "k") as client:
        assert client.posteriors("j", {"num_draws": 1})["cost"] == {"epsilon": 0.0}
        assert client.posterior_draws("j", {"num_draws": 1}) == b"chain,draw\n"
