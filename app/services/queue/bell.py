"""Wake-ups of processes that wait on the embedded queue, in place of polling.

A bell is a named pipe beside the queue's file. Whoever waits makes one and reads; whoever puts a
message in writes a byte into all of them. It carries no message and may ring for nothing: what is
in the queue is in its file.
"""

import errno
import os
import signal
import threading
from glob import escape
from pathlib import Path
from select import POLLIN, poll
from uuid import uuid4

SUFFIX = ".bell"


class Bell:
    """One process's wake-up pipe for a queue. Signals to a waiting main thread wake it too.

    Raises OSError where the folder takes no pipes.
    """

    def __init__(self, queue: str) -> None:
        self._path = Path(f"{queue}.{uuid4().hex}{SUFFIX}")
        unseen = self._path.with_suffix(".part")  # until it is read: see `ring`
        os.mkfifo(unseen, 0o600)
        try:
            self._pipe = os.open(unseen, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            unseen.rename(self._path)
        except OSError:
            unseen.unlink(missing_ok=True)
            raise
        self._ours = threading.current_thread() is threading.main_thread()
        if self._ours:
            self._before = signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
        self._wait = poll()
        self._wait.register(self._pipe, POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait for a wake-up, at most `seconds`. Returns whether there was one."""
        if not self._wait.poll(1000 * seconds):
            return False
        os.read(self._pipe, 65536)
        return True

    def ring(self) -> None:
        """Wake our own process."""
        _press(self._pipe)

    def close(self) -> None:
        """Remove the pipe."""
        if self._ours and threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(self._before)
        self._path.unlink(missing_ok=True)
        os.close(self._pipe)


def ring(queue: str) -> None:
    """Wake every process that waits on this queue; remove pipes of dead ones."""
    place = Path(queue)
    for path in place.parent.glob(f"{escape(place.name)}.*{SUFFIX}"):
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nobody has it open for reading
                path.unlink(missing_ok=True)
            continue
        try:
            _press(pipe)
        finally:
            os.close(pipe)


def _press(pipe: int) -> None:
    """Write one byte to a pipe."""
    try:
        os.write(pipe, b".")
    except BlockingIOError:
        return  # it is full of rings already
