"""Uploads take a bounded memory, jobs no more than what was declared when they were accepted."""

import subprocess
import sys
from pathlib import Path

import pytest

ROWS, COLUMNS = 150_000, 50
VALUES = 8 * ROWS * COLUMNS  # 60 million bytes


@pytest.mark.longer
def test_an_upload_is_not_held_in_memory_and_a_job_takes_no_more_than_declared(
    repository: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.worker.large", str(tmp_path), str(ROWS), str(COLUMNS)],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    upload, job, declared = map(int, done.stdout.splitlines()[-1].split())
    assert upload < 0.8 * VALUES  # the file alone has 69 million bytes
    assert VALUES < job < declared
    assert declared < 4 * VALUES
