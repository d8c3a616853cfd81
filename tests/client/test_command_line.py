"""The command line on what people type: one line that says what would be right, no traceback."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dpmcmc.client import ApiError, Client, render
from dpmcmc.client.cli import app
from tests.peers import QuietHandler, served

ADULT = {
    "id": "53c40a79-125f-46c4-bef4-ebdc7fc607ce",
    "name": "adult",
    "rows": 100,
    "status": "open",
    "privacy": {"neighbouring": "replace_one", "epsilon": 4.0, "delta": 1e-6},
    "columns": [
        {"name": "age", "type": "number", "lower": 17, "upper": 90},
        {"name": "income", "type": "binary", "categories": ["low", "high"]},
    ],
}
OTHERS = [
    {**ADULT, "id": f"{n}000000{n}-125f-46c4-bef4-ebdc7fc607ce", "name": "twice"} for n in (1, 2)
]
ANN = {
    "id": "66bb59a1-125f-46c4-bef4-ebdc7fc607ce",
    "name": "ann",
    "role": "analyst",
    "disabled_at": None,
    "keys": [],
}
REFUSED = {
    "title": "Bad request",
    "code": "invalid",
    "detail": "the job is not as it should be",
    "errors": [{"pointer": "/model/formula", "message": "there is no column 'agee'"}],
}


class Handler(QuietHandler):
    """Lists one of each; refuses all that is sent, and keeps it."""

    sent: list[object]

    def answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        lists = {"/v1/datasets": [ADULT, *OTHERS], "/v1/users": [ANN], "/v1/jobs": []}
        if self.path in lists:
            self.answer(200, {"items": lists[self.path], "next_cursor": None})
        elif self.path == f"/v1/datasets/{ADULT['id']}":
            self.answer(200, ADULT)
        else:
            self.answer(404, {"title": "Not found", "code": "not_found"})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind = self.headers.get("Content-Type", "")
        type(self).sent.append(json.loads(content) if kind == "application/json" else None)
        answers = {"/v1/accounting/noise": {"noise_multiplier": 20.5}}
        answers["/v1/accounting/steps"] = {"num_steps": 17}
        if self.path in answers:
            self.answer(200, answers[self.path])
        else:
            self.answer(422, REFUSED)

    do_PATCH = do_DELETE = do_POST  # noqa: N815 - named by the library


@pytest.fixture
def peer() -> Iterator[str]:
    Handler.sent = []
    with served(Handler) as address:
        yield address


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder of files that are wrong each in its own way, and one that is right."""
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "torn.json").write_text('{"dataset": ')
    (tmp_path / "latin.json").write_bytes(b'{"name": "\xe9"}')
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "nobody.json").write_text("{}")
    (tmp_path / "nan.json").write_text('{"dataset": "adult", "privacy": {"epsilon": NaN}}')
    (tmp_path / "large.json").write_text('{"dataset": "adult", "privacy": {"epsilon": 1e999}}')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "shut").write_text("")
    (tmp_path / "job.json").write_text(json.dumps({"dataset": "adult", "model": 3, "privacy": []}))
    (tmp_path / "rows.csv").write_text("age,income\n1,low\n")
    return tmp_path


def run(url: str, *words: str, key: str = "k") -> Result:
    return CliRunner().invoke(app, ["--url", url, "--key", key, *words])


JOB = ["--dataset", "adult", "--formula", "income ~ age", "--epsilon", "1"]
WRONG = [
    ("jbos", 2, "jobs"),
    ("jobs --jsn", 2, "--json"),
    ("jobs --limit 0", 2, "greater than or equal to 1"),
    ("jobs --limit many", 2, "integer"),
    ("job", 2, "Missing argument 'job'"),
    ("job 1234", 1, "there is no job '1234'"),
    ("job nothing-like-an-id", 1, "there is no job"),
    (f"job {ADULT['id']}", 1, "not_found"),
    ("watch abc", 1, "there is no job"),
    ("cancel abc", 1, "there is no job"),
    ("summary abc", 1, "there is no job"),
    (f"summary {ADULT['id']} --scale units", 2, "original"),
    (f"chain {ADULT['id']}", 2, "Missing argument 'output'"),
    (f"chain {ADULT['id']} out.csv --form cvs", 2, "csv"),
    (f"chain {ADULT['id']} .", 2, "directory"),
    (f"posterior {ADULT['id']} missing.json", 2, "does not exist"),
    (f"posterior {ADULT['id']} torn.json", 2, "line 1"),
    (f"posterior {ADULT['id']} list.json", 2, "JSON object"),
    (f"posterior {ADULT['id']} nobody.json --form xls", 2, "parquet"),
    (f"posterior {ADULT['id']} nobody.json", 1, "/model/formula"),
    ("dataset adlt", 1, "Did you mean adult"),
    ("dataset zebra", 1, "There is adult"),
    ("dataset twice", 1, "2 datasets are called"),
    ("dataset", 2, "Missing argument 'dataset'"),
    ("budget adultt", 1, "Did you mean adult"),
    ("ledger nothing", 1, "there is no dataset"),
    ("verify nothing", 1, "there is no dataset"),
    ("amend adult", 2, "--epsilon"),
    ("amend adult --epsilon lots", 2, "valid number"),
    ("amend adult --epsilon 9", 1, "invalid"),
    ("grant adult anne", 1, "Did you mean ann"),
    ("grant adult ann", 1, "invalid"),
    ("allot adult bob 1", 1, "there is no user"),
    ("allot adult ann much", 2, "valid number"),
    ("allot adult", 2, "Missing argument 'user'"),
    ("destroy nothing --yes", 1, "there is no dataset"),
    ("destroy adult", 1, "Nothing was done"),
    ("upload missing.csv job.json", 2, "does not exist"),
    ("upload rows.csv missing.json", 2, "does not exist"),
    ("upload rows.csv torn.json", 2, "no JSON"),
    ("upload rows.csv latin.json", 2, "UTF-8"),
    ("upload rows.csv job.json", 1, "invalid"),
    ("upload . job.json", 2, "directory"),
    ("submit", 2, "--dataset NAME"),
    ("submit missing.json", 2, "does not exist"),
    ("submit list.json", 2, "JSON object"),
    ("submit torn.json", 2, "line 1"),
    ("submit empty.json", 2, "no JSON"),
    ("submit latin.json", 2, "UTF-8"),
    ("submit nobody.json", 2, "--dataset NAME"),
    ("submit job.json", 1, "/model/formula"),
    ("submit --dataset adult", 2, "--formula and --epsilon"),
    ("submit --dataset adult --formula income~age", 2, "--epsilon"),
    ("submit --dataset adult --formula income~age --epsilon one", 2, "valid number"),
    ("submit --dataset adlut --formula income~age --epsilon 1", 1, "Did you mean adult"),
    ("submit --dataset adult --formula incom~age --epsilon 1", 2, "--family"),
    ("submit --dataset adult --formula income~agee --epsilon 1", 1, "no column 'agee'"),
    ("plan --dataset adult --epsilon 1", 2, "--formula"),
    ("dataset ADULT", 1, "Did you mean adult"),
    ("dataset [bold]", 1, "no dataset '[bold]'"),
    (f"watch {ADULT['id']}", 1, "not_found"),
    (f"chain {ADULT['id']} out.csv --form cvs", 2, "'--form': 'cvs' is not one of"),
    (f"chain {ADULT['id']} nowhere/out.csv", 1, "not_found"),
    (f"posterior {ADULT['id']} list.json", 2, "a JSON object, such as {...}. Try"),
    (f"posterior {ADULT['id']} nan.json", 2, "numbers must be finite"),
    ("submit nan.json", 2, "numbers must be finite"),
    ("submit large.json", 2, "numbers must be finite"),
    ("submit deep.json", 2, "nested too deep"),
    ("submit --dataset adult --formula income~age --epsilon nan", 2, "must be a finite number"),
    ("submit --dataset adult --formula income~age --epsilon inf", 2, "must be a finite number"),
    ("plan --dataset adult --formula income~age --epsilon 1 --delta nan", 2, "finite"),
    ("plan job.json --prior-scale nan", 2, "finite"),
    ("submit --dataset adult --formula income --epsilon 1", 2, "response ~ covariate"),
    ("submit --dataset adult --formula incme~age --epsilon 1", 2, "Did you mean income?"),
    ("amend adult --epsilon nan", 2, "finite"),
    ("allot adult ann inf", 2, "finite"),
    (f"result {ADULT['id']} --level nan", 2, "finite"),
    ("plan job.json --prior-scale wide", 2, "valid number"),
    ("plan job.json --delta little", 2, "valid number"),
    ("user", 2, "Missing argument 'name'"),
    ("user bob --role king", 2, "analyst"),
    ("user bob", 1, "invalid"),
    ("disable bob", 1, "there is no user"),
    ("key bob", 1, "there is no user"),
    ("key --expires tomorrow", 1, "invalid"),
    ("revoke", 2, "Missing argument 'key'"),
    ("revoke nothing", 1, "invalid"),
]


@pytest.mark.longer
@pytest.mark.parametrize(("line", "code", "told"), WRONG)
def test_wrong_words_are_told_in_words(
    peer: str, files: Path, monkeypatch: pytest.MonkeyPatch, line: str, code: int, told: str
) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "200")
    done = run(peer, *line.split())
    assert done.exit_code == code, done.output
    assert told in done.stderr
    told_besides = ("family: logistic", "Destroy the rows of adult? They cannot be had back [y/N]:")
    lines = [one for one in done.stderr.splitlines() if not one.startswith(told_besides)]
    assert all(one.startswith("  /") for one in lines[1:])
    assert done.stdout.strip() == ""
    assert "Traceback" not in done.output
    assert isinstance(done.exception, SystemExit)


@pytest.mark.parametrize(
    ("url", "key", "code", "told"),
    [
        ("http://127.0.0.1:9", "k", 3, "cannot reach"),
        ("127.0.0.1:8000", "k", 3, "DPMCMC_URL"),
        ("http://", "k", 3, "DPMCMC_URL"),
        ("http://127.0.0.1:port", "k", 3, "DPMCMC_URL"),
        ("http://127.0.0.1:9", "schlüssel", 2, "DPMCMC_KEY"),
        ("http://127.0.0.1:9", "two\nlines", 2, "DPMCMC_KEY"),
        ("http://127.0.0.1:9", "", 2, "Missing option '--key' (env var: 'DPMCMC_KEY')"),
    ],
)
def test_a_wrong_place_or_key_is_told(url: str, key: str, code: int, told: str) -> None:
    done = run(url, "jobs", key=key)
    assert done.exit_code == code, done.output
    assert told in done.stderr
    assert isinstance(done.exception, SystemExit)


def test_a_proxy_that_cannot_be_used_is_told(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "sox://127.0.0.1:9")
    done = run(peer, "datasets")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "cannot use this proxy" in done.stderr


def test_where_nothing_can_be_written_is_told(
    peer: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "chain", lambda *_, **__: b"x")
    monkeypatch.setattr(Client, "job", lambda *_: {"id": ADULT["id"]})
    done = run(peer, "chain", ADULT["id"], str(files / "nowhere" / "out.csv"))
    assert done.exit_code == 2
    assert "No such file or directory" in done.stderr
    saved = run(peer, "chain", ADULT["id"], str(files / "out.csv"), "--json")
    assert json.loads(saved.stdout) == {"file": str(files / "out.csv"), "bytes": 1}


def test_a_refusal_of_a_budget_says_how_much_is_left() -> None:
    problem = {"code": "budget_exhausted", "detail": "It does not allow this job."}
    problem |= {"requested": {"epsilon": 100.0}, "remaining": {"epsilon": 5.8635}}
    assert str(ApiError(409, problem)).endswith("It costs epsilon 100, and 5.863 is left.")


def test_who_interrupts_is_told_that_the_job_goes_on(
    peer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "job", lambda *_: {"id": ADULT["id"]})
    monkeypatch.setattr(Client, "events", interrupted)
    done = run(peer, "watch", ADULT["id"])
    assert done.exit_code == 130
    assert f"the job goes on: dpmcmc watch {ADULT['id'][:8]}" in done.stderr
    monkeypatch.setattr(Client, "datasets", interrupted)
    done = run(peer, "datasets")
    assert (done.exit_code, done.stderr.strip()) == (130, "interrupted.")


def test_who_reads_less_than_is_written_is_not_told_of_it(peer: str) -> None:
    many = [{**ADULT, "name": f"adult {k}"} for k in range(4000)]

    class Many(Handler):
        def do_GET(self) -> None:
            self.answer(200, {"items": many, "next_cursor": None})

    with served(Many) as address:
        call = [sys.executable, "-m", "dpmcmc.client", "--url", address, "--key", "k", "datasets"]
        with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as told:
            assert told.stdout is not None
            assert told.stderr is not None
            told.stdout.readline()
            told.stdout.close()
            assert told.stderr.read() == b""
            assert told.wait(60) == 0


def test_names_in_brackets_are_shown_as_they_are() -> None:
    row = {"name": "ward[b]", "mean": 454.4, "sd": 0.012, "q05": 454.38, "q95": 454.42}
    row |= {"r_hat": None, "ess_bulk": None, "ess_tail": None}
    shown = render.shown({"parameters": [row]})
    assert "ward[b]" in shown
    assert "454.380 .. 454.420" in shown  # to the second digit of the sd
    amounts = {name: {"epsilon": 1.0} for name in ("spent", "reserved", "remaining")}
    budget = {"name": "air [hourly]", "dataset": "d", "epsilon": 2.0, "delta": 1e-6, **amounts}
    assert "air [hourly]" in render.text(render.budgets([budget]))
    column = {"name": "x", "type": "number", "lower": 0, "upper": 1, "missing": [-200]}
    assert "0 to 1; none: -200" in render.text(
        render.columns({"name": "a", "rows": 1, "columns": [column]})
    )


def test_help_and_typing_errors_need_no_key() -> None:
    done = run("http://127.0.0.1:9", "submit", "--help", key="")
    assert done.exit_code == 0
    assert "--formula" in done.stdout
    assert "No such command 'sumbit'" in run("http://127.0.0.1:9", "sumbit", key="").stderr


@pytest.mark.longer
@pytest.mark.parametrize(
    ("words", "told"),
    [("--port 99999999", "give 0 to 65535"), ("--port many", "no port"), ("--prot 3", "--prot 3")],
)
def test_wrong_words_for_the_service_are_one_line(words: str, told: str) -> None:
    call = [sys.executable, "-m", "app.serve", *words.split()]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert told in done.stderr
    assert "./dev serve --help" in done.stderr


def test_without_a_word_the_help_is_shown_alone() -> None:
    done = CliRunner().invoke(app, [])
    assert (done.exit_code, done.stderr.strip()) == (2, "")
    assert "submit" in done.stdout


def test_an_answer_of_something_else_is_told(peer: str) -> None:
    class Page(Handler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"<html>")

    with served(Page) as address:
        done = run(address, "datasets")
    assert done.exit_code == 1
    assert "no answer of a dpmcmc service" in done.stderr


def test_a_job_of_flags_is_completed_from_what_is_public(peer: str) -> None:
    words = ("--name", "first try", "--note", "of two")
    done = run(peer, "submit", *JOB, "--prior-scale", "1", "--algorithm", "dp_hmc", *words)
    assert "family: logistic, for income is a binary column" in done.stderr
    assert Handler.sent == [
        {
            "dataset": ADULT["id"],
            "model": {
                "formula": "income ~ age",
                "family": "logistic",
                "prior": {"kind": "normal", "scale": 1.0},
            },
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
            "sampler": {"algorithm": "dp_hmc"},
            "name": "first try",
            "note": "of two",
        }
    ]


def test_flags_go_before_what_a_file_says(peer: str, tmp_path: Path) -> None:
    whole = {
        "dataset": "adult",
        "model": {"family": "poisson", "formula": "age ~ income"},
        "privacy": {"epsilon": 1.0, "delta": 1e-5},
    }
    (tmp_path / "job.json").write_text(json.dumps(whole))
    run(peer, "submit", str(tmp_path / "job.json"), "--epsilon", "2", "--accept-low-quality")
    assert Handler.sent == [
        {
            **whole,
            "dataset": ADULT["id"],
            "privacy": {"epsilon": 2.0, "delta": 1e-5},
            "accept_low_quality": True,
        }
    ]


@pytest.mark.parametrize("response", ["age | trials(n)", "surv(age, income)"])
def test_the_family_of_two_columns_is_left_to_the_service(peer: str, response: str) -> None:
    formula = f"{response} ~ income"
    run(peer, "submit", "--dataset", "adult", "--formula", formula, "--epsilon", "1")
    assert Handler.sent[-1]["model"] == {"formula": formula}


def test_a_job_goes_up_to_its_epsilon_until_it_is_reliable(peer: str, tmp_path: Path) -> None:
    until = {"up_to": 1.0, "until": "reliable"}
    run(peer, "submit", *JOB, "--until", "reliable")
    assert Handler.sent[-1]["privacy"] == {"epsilon": until, "delta": 1e-6}
    job = {"dataset": "adult", "model": {"formula": "age ~ income"}, "privacy": {"epsilon": until}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    run(peer, "submit", str(tmp_path / "job.json"), "--until", "reliable")
    assert Handler.sent[-1]["privacy"] == {"epsilon": until, "delta": 1e-6}
    (tmp_path / "job.json").write_text(json.dumps(job | {"privacy": {"noise_multiplier": 2.0}}))
    done = run(peer, "submit", str(tmp_path / "job.json"), "--until", "reliable")
    assert done.exit_code == 2
    assert "--until needs --epsilon" in done.stderr


def test_tables_fit_eighty_columns_and_json_is_whole(
    peer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (["datasets"], ["dataset", "adult"], ["users"]):
        shown = run(peer, *words)
        assert shown.exit_code == 0, shown.output
        assert max(map(len, shown.stdout.splitlines())) <= 80
        assert "…" not in shown.stdout
        json.loads(run(peer, *words, "--json").stdout)


def test_a_long_name_is_broken_and_no_number(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    long = {**ADULT, "name": "a name that is far too long for a line of eighty columns, and more"}

    class Long(Handler):
        def do_GET(self) -> None:
            self.answer(200, {"items": [long], "next_cursor": None})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            said = {"code": "rows_seen", "detail": "these rows [were] seen"}
            self.answer(201, {**long, "warnings": [said], "same_name": [ADULT["id"]]})

    with served(Long) as address:
        shown = run(address, "datasets").stdout
        told = run(address, "upload", str(files / "rows.csv"), str(files / "job.json")).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert "53c40a79" in shown
    assert "these rows [were] seen" in told
    assert "another dataset in use has this name" in told
    act = {"seq": 1, "at": "2026-01-01T00:00:00.1", "action": "dataset.rows_seen_before"}
    audit = render.text(render.audit([{**act, "subject": ADULT["id"]}]))
    assert "dataset.rows_seen_before" in audit
    assert "53c40a79" in audit
    assert "…" not in audit


def test_the_version_needs_no_service() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert done.exit_code == 0
    assert done.output.startswith("dpmcmc")


def test_noise_and_steps_of_an_epsilon_are_printed(peer: str) -> None:
    budget = ["--epsilon", "1", "--delta", "1e-6"]
    assert run(peer, "noise", *budget, "--steps", "12").output == "20.5\n"
    assert Handler.sent[-1] == {"epsilon": 1.0, "delta": 1e-6, "num_steps": 12}
    assert run(peer, "steps", *budget, "--noise-multiplier", "60").output == "17\n"
    assert Handler.sent[-1] == {"epsilon": 1.0, "delta": 1e-6, "noise_multiplier": 60.0}
    assert "finite" in run(peer, "noise", "--epsilon", "nan", "--delta", "1e-6").output
