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


GIVE_WAY = """
import os
from app.priority import SESSION, give_way
give_way(5, 2)
print(os.getpriority(os.PRIO_PROCESS, 0), SESSION.read_text())
"""


def nice_and_session(*, leads: bool) -> tuple[int, list[str]]:
    """The `nice` of a process that gave way, and what the kernel says of its session.

    The kernel says nothing of a session that is as old as the machine: it shares no cores out.
    """
    done = subprocess.run(
        [sys.executable, "-c", GIVE_WAY],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=leads,
    )
    nice, *session = done.stdout.split()
    return int(nice), session


@pytest.mark.skipif(not SESSION.exists(), reason="cores are not shared out by session here")
def test_the_session_gives_way_with_the_process_that_leads_it() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    nice, session = nice_and_session(leads=True)
    assert nice == own + 5
    assert session[1:] == ["nice", "2"]


@pytest.mark.skipif(not SESSION.exists(), reason="cores are not shared out by session here")
def test_a_session_that_others_lead_stays_as_it_is() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    before = SESSION.read_text().split()
    assert nice_and_session(leads=False) == (own + 5, before)
