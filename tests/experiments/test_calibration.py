"""The calibration experiment measures what it says, and keeps what it has run."""

from experiments import calibration


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
