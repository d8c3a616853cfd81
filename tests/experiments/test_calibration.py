"""The calibration experiment measures what it says, and keeps what it has run."""

from experiments import calibration, rare


def test_a_cell_is_measured_once(tmp_path, capsys):
    out = tmp_path / "calibration.csv"
    words = ["--quick", "--runs", "3", "--cells", "plain-linear-2000x4", f"--output={out}"]
    calibration.main(words)
    first = calibration.rows_of(out)
    calibration.main(words)
    assert calibration.rows_of(out) == first
    assert [float(row["epsilon"]) for row in first] == [1.0, 4.0]
    assert all(0.5 <= float(row["coverage"]) <= 1.0 for row in first)
    assert 1.0 < float(first[1]["width"]) < float(first[0]["width"]) < 5.0
    assert "coverage" in capsys.readouterr().out


def test_rare_categories_and_responses_are_judged(tmp_path):
    out = tmp_path / "rare.csv"
    rare.main(["--parts", "categories", "--designs", "1", "--runs", "3", f"--output={out}"])
    (row,) = rare.rows_of(out)
    assert 0 <= float(row["unreliable"]) <= 1
    assert 0.5 < float(row["coverage"]) <= 1.0
    case = rare.with_share("multinomial", 2000, 2, 0.03)
    assert rare.judged("responses", "x", case, 10.0, 60, 3, 5)["wrong"] <= 1
