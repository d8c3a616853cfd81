"""The command line against the service itself: each command once, as admin and as analyst."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpmcmc.client import Client, cli
from tests.api.support import METADATA, House, as_csv, csv_rows

FORMULA = ["--dataset", "people", "--formula", "income ~ age + sex"]


@pytest.fixture
def told(house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> "Told":
    monkeypatch.setattr(cli, "Client", lambda _, key: within(house, key))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return Told(house.admin.key)


def within(house: House, key: str) -> Client:
    """A client of the service in this process."""
    made = Client("http://here", key)
    headers = made._http.headers
    made.close()
    made._http = house.http
    made._http.headers.update(headers)
    made.close = lambda: None  # type: ignore[method-assign]
    return made


class Told:
    """Runs commands, one after the other, and gives what they print."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, *words: str, key: str | None = None, code: int = 0) -> str:
        done = CliRunner().invoke(cli.app, ["--key", key or self.key, *words])
        assert done.exit_code == code, done.output
        return done.output


def test_every_command_does_what_it_says(house: House, told: Told, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(as_csv(csv_rows(4000)))
    (tmp_path / "people.json").write_text(json.dumps(METADATA))
    assert "people, 4,000 rows" in told("upload", "rows.csv", "people.json")
    assert "people" in told("datasets")
    assert "17 to 90" in told("dataset", "people")
    told("dummy", "people", "dummy.csv", "--rows", "7")
    assert len((tmp_path / "dummy.csv").read_text().splitlines()) == 8
    key = told("user", "ann").split()[0]
    assert key.startswith("dpm_")
    assert "1.79" in told("plan", *FORMULA, "--epsilon", "1", key=key)
    job = told("submit", *FORMULA, "--epsilon", "1", key=key).split()[-1]
    assert "queued" in told("job", job[:8], key=key)
    house.run(job)
    assert "sex[Male]" in told("watch", job[:8], key=key)
    assert "sex[Male]" in told("summary", job, "--scale", "design", key=key)
    assert json.loads(told("summary", job, "--json", key=key))["scale"] == "original"
    told("chain", job, "draws.csv", "--form", "csv", key=key)
    assert (tmp_path / "draws.csv").read_text().startswith("chain,draw,warmup,Intercept")
    (tmp_path / "asked.json").write_text('{"given": [{"age": 50, "sex": "Male"}]}')
    assert "Nothing is charged" in told("posterior", job, "asked.json", key=key)
    second = told("submit", *FORMULA, "--epsilon", "0.9", key=key).split()[-1]
    assert "cancelled" in told("cancel", second[:8], key=key)
    assert "income ~ age + sex" in told("jobs", key=key)
    assert "people" in told("budget")
    assert "3.817" in told("budget", "people")
    told("amend", "people", "--epsilon", "6", "--reason", "a second study")
    told("grant", "people", "ann")
    told("allot", "people", "ann", "2")
    asked = told("ask", "people", "--reason", "a third study", "--epsilon", "1", "--json", key=key)
    request = json.loads(asked)["id"][:8]
    assert "visits" in told("ask", "visits", "--reason", "a trial", key=key)
    assert "people" in told("requests", key=key)
    granted = told("answer", request, "granted", "--say", "do", "--allotment", "2", "--json")
    assert json.loads(granted)["granted"]["allotment"] == 2.0
    told("answer", request, "refused", code=1)
    listed = json.loads(told("requests", "--json"))
    other = next(one["id"] for one in listed if one["status"] == "open")
    assert "withdrawn" in told("answer", other, "withdrawn", key=key)
    budget = json.loads(told("budget", "people", "--json"))
    assert (budget["epsilon"], len(budget["allotments"])) == (6.0, 1)
    assert "reserve" in told("ledger", "people")
    assert "whole" in told("verify", "people")
    assert "dataset.amend" in told("audit")
    assert "a second study" in told("audit", "--json")
    own = told("key", "--label", "laptop", key=key).split()[0]
    (ann,) = [one for one in json.loads(told("users", "--json")) if one["name"] == "ann"]
    (made,) = [one["id"] for one in ann["keys"] if one["label"] == "laptop"]
    assert "income" in told("jobs", key=own)
    told("revoke", made)
    told("jobs", key=own, code=1)
    assert "closed" in told("disable", "ann", "--reason", "left")
    told("jobs", key=key, code=1)
    assert "open" in told("enable", "ann")
    told("amend", "people", "--archive")
    told("destroy", "people", "--yes", "--reason", "over")
    assert "destroyed" in told("datasets")
