"""A pool of processes for plans and quotes, each call with a time limit.

Neither the event loop nor a thread computes: a thread here only waits for its process, and ends it
when the time is over or whoever asked has left. Callers take turns, however much one of them asks.
One process is kept for what is quick, so that it never waits for what is not.
"""

import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import cycle
from multiprocessing.connection import Connection
from typing import Any

from app import logs
from app.services.errors import Refusal
from app.services.planning.process import STOP_SIGNAL
from app.settings import PREFIX, Settings, variables_of

MOST_WAITING = 4096  # of all callers together, each of whom may have a few
OUTCOMES = ("answered", "too_long_to_plan", "unavailable")
MOST_KEPT = 512  # answers, for who asks the same again: a job is planned before it is submitted
LOOK_SECONDS = 0.05  # between two looks at whether somebody still waits
STOP_SECONDS = 2.0  # for work that is told to stop, after which its process ends
START_SECONDS = 60.0  # for a process to load its libraries


# of a process, by its lanes: the API goes first, so that nobody else's call waits, then the quick
NICE = {(True,): 1, (False, True): 5}
Lane = OrderedDict[str, "deque[Ticket]"]  # by caller, in turn


@dataclass(slots=True)
class Ticket:
    """A submitted call. answer: its result, or Refusal 422 or 503."""

    key: bytes
    keep: bool = True
    quick: bool = False
    answer: "Future[Any]" = field(default_factory=Future)
    left: threading.Event = field(default_factory=threading.Event)
    _requests: int = 1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def join(self) -> bool:
        """Register another waiting request. Returns whether that is still possible."""
        with self._lock:
            if not self.left.is_set():
                self._requests += 1
            return not self.left.is_set()

    def leave(self) -> None:
        """Unregister a waiting request; a call without any is cancelled."""
        with self._lock:
            self._requests -= 1
            if self._requests == 0:
                self.left.set()


class Planners:
    """Processes that call pure functions of public facts, started when first needed."""

    def __init__(self, number: int, seconds: float, of_caller: int = MOST_WAITING) -> None:
        self._seconds, self._of_caller = seconds, of_caller
        self._waiting: dict[bool, Lane] = {True: OrderedDict(), False: OrderedDict()}  # by quick
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._pending: dict[bytes, Ticket] = {}  # what is to be kept, until it is
        self._change = threading.Condition()
        self._outcomes = dict.fromkeys(OUTCOMES, 0)
        self._closed = False
        self._threads = [
            threading.Thread(
                target=self._serve, args=(lanes_of(n, number),), name=f"planner-{n}", daemon=True
            )
            for n in range(number)
        ]

    def start(self) -> None:
        """Start the processes in advance, so that libraries are loaded."""
        with self._change:
            for thread in self._threads:
                if thread.ident is None:
                    thread.start()

    def ask(
        self,
        caller: str,
        function: Callable[..., Any],
        *given: Any,
        keep: bool = True,
        quick: bool = False,
    ) -> Ticket:
        """Submit a call of a module-level function.

        Raises Refusal 429 where too much of this caller is waiting, 503 where too much of all is.

        keep: whether the answer is shared with who asks the same, now or later. quick: whether it
        takes hundredths of a second, whatever is given.
        """
        ticket = Ticket(pickle.dumps((caller, function, given)), keep, quick)
        ticket.answer.set_running_or_notify_cancel()  # from here on only `leave` ends it
        with self._change:
            if ticket.key in self._kept:
                self._kept.move_to_end(ticket.key)
                ticket.answer.set_result(self._kept[ticket.key])
                return ticket
            pending = self._pending.get(ticket.key)
            if keep and pending is not None and pending.join():
                return pending
            self._check_room(caller)
            if keep:
                self._pending[ticket.key] = ticket
            self._waiting[quick].setdefault(caller, deque()).append(ticket)
            self._change.notify_all()
        self.start()
        return ticket

    def _check_room(self, caller: str) -> None:
        """Remove abandoned calls of a caller, and raise Refusal where too many wait."""
        waiting = 0
        for lane in self._waiting.values():
            before = lane.get(caller, ())
            queue = deque(ticket for ticket in before if not ticket.left.is_set())
            waiting += len(queue)
            for ticket in before:
                if ticket.left.is_set():
                    self._settle(ticket)
            if queue:
                lane[caller] = queue
            else:
                lane.pop(caller, None)
        if waiting >= self._of_caller:
            message = f"{waiting} of your plans and free answers wait, as many as may; try again."
            raise Refusal(429, "too_many_plans", message)
        if self._closed or sum(len(queue) for queue in self._queues()) >= MOST_WAITING:
            raise Refusal(503, "unavailable", "Too much is being planned; try again.")

    def _settle(self, ticket: Ticket) -> None:
        """Close a ticket to further requests. Called under the lock."""
        if self._pending.get(ticket.key) is ticket:
            del self._pending[ticket.key]

    def close(self) -> None:
        """End the processes; waiting calls are refused."""
        with self._change:
            self._closed = True
            for queue in self._queues():
                for ticket in queue:
                    ticket.answer.set_exception(_busy())
            for lane in self._waiting.values():
                lane.clear()
            self._change.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _queues(self) -> list[deque[Ticket]]:
        """Return the queues of all callers."""
        return [queue for lane in self._waiting.values() for queue in lane.values()]

    def _next(self, lanes: Sequence[bool]) -> Ticket | None:
        """Return the next ticket of these lanes, in turn by caller; None after closing.

        lanes: quick or not, the one that comes first at the front.
        """
        with self._change:
            while not self._closed and not any(self._waiting[quick] for quick in lanes):
                self._change.wait()
            if self._closed:
                return None
            lane = next(self._waiting[quick] for quick in lanes if self._waiting[quick])
            caller, queue = lane.popitem(last=False)
            ticket = queue.popleft()
            if queue:
                lane[caller] = queue
            return ticket

    def _serve(self, lanes: tuple[bool, ...]) -> None:
        """Run calls on one process: send, wait, and end those over the time limit."""
        turns = cycle((lanes, lanes[::-1]))
        worker = _Worker(self._seconds, NICE[lanes], lambda: self._closed)
        try:
            _start_early(worker)
            while (ticket := self._next(next(turns))) is not None:
                try:
                    self._finish(ticket, worker.work(ticket))
                except Exception as error:  # the thread goes on: others wait
                    logs.logger().error("planner_failed", exception=type(error).__name__)
                    worker.end()
                    self._finish(ticket, _busy())
        finally:
            worker.end()

    def outcomes(self) -> dict[str, int]:
        """Return the number of calls by outcome since start: answered, or a refusal's code."""
        with self._change:
            return dict(self._outcomes)

    def _finish(self, ticket: Ticket, outcome: Any) -> None:
        """Complete a ticket with its result."""
        refused = isinstance(outcome, Refusal)
        with self._change:
            self._outcomes[outcome.code if refused else "answered"] += 1
            if ticket.keep and not refused:
                self._kept[ticket.key] = outcome
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
            self._settle(ticket)
        if refused:
            ticket.answer.set_exception(outcome)
        else:
            ticket.answer.set_result(outcome)


def planners_of(settings: Settings) -> Planners:
    """Return the configured process pool; processes start when first needed."""
    return Planners(settings.planners, settings.plan_seconds, settings.max_plans_waiting)


def lanes_of(number: int, of: int) -> tuple[bool, ...]:
    """Return the lanes of a process: quick calls alone for the first, both for others."""
    return (True,) if number == 0 and of > 1 else (False, True)


def _start_early(worker: "_Worker") -> None:
    """Start a process in advance, ignoring failures."""
    try:
        worker.ready()
    except Exception as error:  # it was killed, or nothing could be started: this may pass
        logs.logger().error("planner_failed", exception=type(error).__name__)
        worker.end()


def _busy() -> Refusal:
    """Return the refusal for a full queue."""
    return Refusal(503, "unavailable", "This could not be worked out now; try again.")


def _too_long() -> Refusal:
    """Return the refusal for a call over the time limit."""
    return Refusal(
        422, "too_long_to_plan", "Working this out takes longer than this service allows."
    )


def _environment() -> dict[str, str]:
    """Return the environment without the service's settings and secrets."""
    own = {
        name for key, field in Settings.model_fields.items() for name in variables_of(key, field)
    }
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) and name.removesuffix("_FILE") not in own
    }
    return {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class _Worker:
    """One process, restarted after it was killed.

    nice: how much it gives way. closed: whether nothing counts any more.
    """

    def __init__(self, seconds: float, nice: int, closed: Callable[[], bool]) -> None:
        self._seconds, self._nice = seconds, nice
        self._closed = closed
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None

    def work(self, ticket: Ticket) -> Any:
        """Return the result of a call, or the Refusal that replaces it."""
        line = None if ticket.left.is_set() else self.ready()
        if line is None:
            return _busy()
        line.send_bytes(ticket.key)
        until = time.monotonic() + self._seconds
        while not line.poll(LOOK_SECONDS):
            late = time.monotonic() > until
            if self._closed():
                self.end()
                return _busy()
            if late or ticket.left.is_set():
                self._stop(line)
                return _too_long() if late else _busy()
        worked, outcome = pickle.loads(line.recv_bytes())  # noqa: S301 - our own process
        return outcome if worked else _busy()

    def _stop(self, line: Connection) -> None:
        """Interrupt the current call; kill the process if it does not stop."""
        if self._process is not None:
            self._process.send_signal(STOP_SIGNAL)
        if line.poll(STOP_SECONDS):
            line.recv_bytes()
        else:
            self.end()

    def ready(self) -> Connection | None:
        """Return the connection to a process that is ready; None after closing."""
        if self._line is not None and self._process is not None and self._process.poll() is None:
            return self._line
        self.end()
        line = self._line = self._start()
        until = time.monotonic() + START_SECONDS
        while not line.poll(LOOK_SECONDS):
            if self._closed() or time.monotonic() > until:
                self.end()
                return None
        line.recv_bytes()
        return line

    def _start(self) -> Connection:
        """Start the process. Returns the parent's end of the connection."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            arguments = [str(theirs.fileno()), str(self._seconds), str(self._nice)]
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "app.services.planning.process", *arguments],
                pass_fds=(theirs.fileno(),),
                env=_environment(),
                process_group=0,  # of this session, within which `nice` counts
            )
            return Connection(ours.detach())

    def end(self) -> None:
        """Kill the process, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._line is not None:
            self._line.close()
        self._process = self._line = None
