"""What gives way does so whether cores are shared out by process or by session."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import serve
from app.priority import SESSION


def test_workers_share_the_session_of_the_service_and_no_process_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, script = tmp_path / "told", tmp_path / "worker"
    say = "import os; print(os.getsid(0), os.getpgid(0), file=open({told!r}, 'w'))"
    script.write_text(f"#!{sys.executable}\n{say.format(told=str(told))}\n")
    script.chmod(0o755)
    monkeypatch.setattr(serve.sys, "executable", str(script))
    child = serve.Workers(1, 1.0)._start()
    assert child.wait(10) == 0
    assert list(map(int, told.read_text().split())) == [os.getsid(0), child.pid]


TOLD = """
import os
from app.priority import SESSION, give_way
give_way(5, 2)
print(os.getpriority(os.PRIO_PROCESS, 0), SESSION.read_text().split()[-1])
"""


def told(*, leads: bool) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", TOLD],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=leads,
    )
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(not SESSION.exists(), reason="cores are not shared out by session here")
def test_the_session_gives_way_with_the_process_that_leads_it() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert told(leads=True) == [own + 5, 2]


@pytest.mark.skipif(not SESSION.exists(), reason="cores are not shared out by session here")
def test_a_session_that_others_lead_stays_as_it_is() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    before = int(SESSION.read_text().split()[-1])
    assert told(leads=False) == [own + 5, before]
