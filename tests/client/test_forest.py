"""Forest plots without a library, and the fit of public data that they are held against."""

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from app.demo import coefficients
from dpmcmc.client import forest, render
from dpmcmc.client.answers import Summary
from dpmcmc.client.forest import Effect

EFFECTS = [Effect("one", 1.08, 1.12, 1.16, 1.11), Effect("a longer name", 0.85, 0.9, 0.95, 0.99)]
DATA = Path(__file__).resolve().parents[2] / "experiments" / "data" / "randhie.csv.gz"
ROW = {"name": "x", "mean": 1.0, "sd": 0.1, "q05": 0.8, "q95": 1.2, "r_hat": 1.0}
ROW |= {"ess_bulk": 400.0, "ess_tail": 400.0}
VERDICTS = {
    status: {"status": status, "sentence": f"{status.capitalize()}: so it is.", "reasons": []}
    for status in ("reliable", "unreliable")
}


def test_a_forest_as_text_has_each_mark_where_it_belongs() -> None:
    first, second, axis = forest.text(EFFECTS, 80)
    assert len(first) == len(second) == 80
    for line, marks in ((first, "┊├x●┤"), (second, "├●┤x┊")):
        places = [line.index(mark) for mark in marks]
        assert places == sorted(places)
    assert first.index("┊") == second.index("┊")
    low, high = forest.ends(EFFECTS)
    assert axis.split() == [f"{low:.3g}", "1", f"{high:.3g}"]


@pytest.mark.parametrize("status", ["reliable", "unreliable"])
def test_the_picture_is_a_png_in_the_colour_of_its_verdict(status: str) -> None:
    image = pytest.importorskip("matplotlib.image")
    made = forest.png(EFFECTS, "Odds ratios", VERDICTS[status])
    pixels = np.rint(image.imread(io.BytesIO(made), format="png") * 255).astype(int)
    assert pixels.shape == (forest.TOP + forest.BOTTOM + 2 * forest.ROW, forest.WIDTH, 3)
    counts = {
        colour: int((pixels == colour).all(axis=2).sum()) for colour in (forest.GREEN, forest.RED)
    }
    shown, other = (
        (forest.GREEN, forest.RED) if status == "reliable" else (forest.RED, forest.GREEN)
    )
    assert counts[shown] > 200
    assert counts[other] == 0


def test_what_is_encoded_is_decoded() -> None:
    grey = np.random.default_rng(1).integers(0, 256, (7, 13)).astype(np.uint8)
    assert (forest.decoded(forest.encoded(grey)) == grey).all()


def test_the_public_fit_is_where_the_score_is_zero() -> None:
    bounds = {"chronic": (0.0, 25.0), "income": (0.0, 16000.0)}
    found = coefficients(DATA, "any_visit ~ chronic + income", bounds)
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    columns = [np.clip([float(row[name]) for row in rows], *ends) for name, ends in bounds.items()]
    x = np.column_stack((np.ones(len(rows)), *columns))
    y = np.array([row["any_visit"] == "yes" for row in rows])
    score = x.T @ (y - 1.0 / (1.0 + np.exp(-x @ np.array(list(found.values())))))
    assert np.abs(score / np.abs(x).sum(axis=0)).max() < 1e-9


@pytest.mark.parametrize(("status", "colour"), [("reliable", "32m"), ("unreliable", "31m")])
def test_a_summary_shows_its_verdict_in_colour_wherever_it_is_printed(
    status: str, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = Summary({"parameters": [ROW], "verdict": VERDICTS[status]})
    assert VERDICTS[status]["sentence"] in repr(summary)
    assert ("Posterior (unreliable)" in repr(summary)) == (status == "unreliable")
    assert "\x1b" not in repr(summary)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert colour in str(summary)
    assert summary["parameters"] == [ROW]


def test_a_list_of_jobs_has_a_verdict_for_each_that_succeeded() -> None:
    job = {"id": "a", "algorithm": "dp_hmc", "cost": {"epsilon": 1.0}, "status": "succeeded"}
    jobs = [job | {"verdict": VERDICTS["unreliable"]}, job | {"status": "queued", "verdict": None}]
    assert render.status(jobs[0]) == "[green]succeeded[/], [red]unreliable[/]"
    assert render.status(jobs[1]) == "[yellow]queued[/]"
    assert render.jobs(jobs).row_count == 2
