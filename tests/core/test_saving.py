"""A fit as one file: read again it is the same, and nothing else is in it."""

import json
import zipfile

import numpy as np
import pytest

import dpmcmc
from dpmcmc.inputs.options import DpHmcOptions, DpPenaltyOptions
from tests.sources import Seeded

ROWS = 3000
BOUNDS = {"x": (0, 10), "g": ("a", "b", "c"), "y": ("no", "yes"), "z": (-50, 50)}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    x, g = rng.uniform(0, 10, ROWS), rng.choice(["a", "b", "c"], ROWS)
    y = np.where(rng.random(ROWS) < 1 / (1 + np.exp(2 - 0.4 * x)), "yes", "no")
    return {"x": x, "g": g, "y": y, "z": 3 * x - 7 + rng.normal(0, 4, ROWS)}


@pytest.fixture(scope="module")
def schema(rows):
    return dpmcmc.Schema.from_frame(rows, bounds=BOUNDS)


def fitted(rows, schema, sampler, formula="y ~ x + C(g)"):
    return dpmcmc.sample(
        formula, rows, schema, epsilon=8, sampler=sampler, random=Seeded(3), accept_low_quality=True
    )


@pytest.mark.parametrize(
    ("sampler", "formula"),
    [
        (None, "y ~ x + C(g)"),
        ("noisy_quadratic", "z ~ x + I(x**2)"),
        ("sufficient_statistics", "z ~ x"),
        ("dp_vi", "y ~ x"),
        (DpPenaltyOptions(num_steps=300), "y ~ x"),
        (DpHmcOptions(num_steps=50), "z ~ x"),
    ],
)
def test_what_is_read_is_what_was_saved(rows, schema, sampler, formula, tmp_path):
    fit = fitted(rows, schema, sampler, formula)
    fit.save(tmp_path / "fit")
    again = dpmcmc.load(tmp_path / "fit")
    assert np.array_equal(again.draws, fit.draws)
    assert (again.plan, again.verdict, again.design) == (fit.plan, fit.verdict, fit.design)
    assert str(again) == str(fit)
    assert again.to_datatree().attrs == fit.to_datatree().attrs
    assert (again.release is None) == (fit.release is None)
    if fit.release is not None:
        assert again.release.to_dict() == fit.release.to_dict()
        assert again.release.verdict == fit.release.verdict


def test_what_was_saved_still_answers(rows, schema, tmp_path):
    fit = fitted(rows, schema, None)
    fit.save(tmp_path / "fit")
    again = dpmcmc.load(tmp_path / "fit")
    setting = [{"x": 5, "g": "a"}]
    assert again.predict(setting)[0].expected.mean == pytest.approx(
        fit.predict(setting)[0].expected.mean, rel=0.01
    )
    prior = {"x": dpmcmc.CoefficientPrior(kind="normal", scale=0.01)}
    assert abs(again.release.posterior(prior).shown[:, 1].mean()) < 0.01


def test_a_file_has_released_values_and_public_facts_alone(rows, schema, tmp_path):
    """Another table of as many rows, and the same noise: what differs are released numbers."""
    others = {name: values[::-1] if name == "x" else values for name, values in rows.items()}
    told = []
    for at, data in enumerate((rows, others)):
        fitted(data, schema, None).save(tmp_path / f"{at}")
        with zipfile.ZipFile(tmp_path / f"{at}") as archive:
            assert set(archive.namelist()) == {"fit.json", "draws.npy"}
            told.append(json.loads(archive.read("fit.json")))
    released = ("verdict", "release", "drawn")
    facts = [{k: v for k, v in one.items() if k not in released} for one in told]
    assert facts[0] == facts[1]
    assert told[0]["release"] != told[1]["release"]
    assert set(facts[0]) == {"format", "version", "dpmcmc", "schema", "plan"}


def torn(path, fit):
    path.write_bytes((path.parent / "fit").read_bytes()[:100])


def other_zip(path, fit):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("fit.json", '{"format": "another"}')


def pickled(path, fit):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("fit.json", '{"format": "dpmcmc fit", "version": 1}')
        with archive.open("draws.npy", "w") as file:
            np.save(file, np.array([{}], dtype=object), allow_pickle=True)


def newer(path, fit):
    with zipfile.ZipFile(path.parent / "fit") as archive:
        facts = json.loads(archive.read("fit.json")) | {"version": 2, "dpmcmc": "9.9"}
        draws = archive.read("draws.npy")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("fit.json", json.dumps(facts))
        archive.writestr("draws.npy", draws)


def changed(**parts):
    """A file with other facts of these names; None leaves one out."""

    def made(path, fit):
        with zipfile.ZipFile(path.parent / "fit") as archive:
            facts = json.loads(archive.read("fit.json")) | parts
            draws = archive.read("draws.npy")
        with zipfile.ZipFile(path, "w") as archive:
            kept = {name: value for name, value in facts.items() if value is not None}
            archive.writestr("fit.json", json.dumps(kept))
            archive.writestr("draws.npy", draws)

    return made


def flipped(path, fit):
    content = bytearray((path.parent / "fit").read_bytes())
    content[200] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (changed(plan=None), "fit.save"),
        (changed(plan="x"), "fit.save"),
        (changed(release={}), "fit.save"),
        (changed(release=3), "fit.save"),
        (changed(schema=[]), "fit.save"),
        (changed(verdict={"status": "x"}), "fit.save"),
        (flipped, "fit.save"),
        (lambda path, _: path.write_text("x,y\n"), "fit.save"),
        (lambda path, _: path.write_bytes(b""), "fit.save"),
        (torn, "fit.save"),
        (other_zip, "fit.save"),
        (pickled, "fit.save"),
        (newer, "written by dpmcmc 9.9"),
    ],
)
def test_another_file_is_told_in_one_line(rows, schema, tmp_path, made, told):
    fit = fitted(rows, schema, None)
    fit.save(tmp_path / "fit")
    made(tmp_path / "wrong", fit)
    with pytest.raises(ValueError, match=told) as found:
        dpmcmc.load(tmp_path / "wrong")
    assert "\n" not in str(found.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        dpmcmc.load(tmp_path / "nowhere")
