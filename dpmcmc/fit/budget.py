"""The privacy budget of a dataset in the library, and the file that keeps it.

It composes as the service does: fully adaptively, by the same filter (docs/proofs/filter.md).
"""

import errno
import hashlib
import json
import math
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from numbers import Real
from operator import add, sub
from pathlib import Path
from typing import Any, NoReturn

from dpmcmc.base.digits import ROUNDING, rounded_down
from dpmcmc.base.names import ROW
from dpmcmc.privacy.drawn import begins
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.filter import (
    EntryCost,
    FilterState,
    FilterTerms,
    entry_cost,
    failure_left,
    in_units,
    remaining_epsilon,
    remaining_for,
    remaining_pure_epsilon,
    spent_epsilon,
)
from dpmcmc.privacy.promises import MOST_DELTA, TOO_LARGE

try:
    import fcntl
except ImportError:  # no file is locked on this system: budgets stay in memory
    fcntl = None  # type: ignore[assignment]

LEAST_ASKED = 1e-12  # epsilon: no call has so little
FORMAT, VERSION = "dpmcmc budget", 1
VERSION_WITH_RETURNS = 2
VERSION_WITH_UNIT = 3
VERSIONS = (VERSION, VERSION_WITH_RETURNS, VERSION_WITH_UNIT)


class BudgetExhaustedError(ValueError):
    """A call that would cost more than is left.

    Attributes
    ----------
    requested
        Epsilon of the call, at the budget's delta.
    remaining
        Largest epsilon of a call that still fits.
    """

    def __init__(self, requested: float, remaining: float, delta: float, why: str = "") -> None:
        cost = f"this call costs epsilon {requested:.4g} at delta {delta:g}"
        left = f"{cost}, and {rounded_down(remaining)} is left of the budget"
        super().__init__(why or left)
        self.requested = requested
        self.remaining = remaining


class _LaterVersionError(ValueError):
    """A budget file of a later version of dpmcmc, which this version cannot read."""


@dataclass(frozen=True, slots=True)
class _Spent:
    """Running totals of what calls have taken and returned. Neither ever decreases."""

    taken: FilterState
    calls: int
    returned: tuple[int, ...] = ()
    unit: str = ROW

    @property
    def state(self) -> FilterState:
        """The costs spent: taken minus returned."""
        if not self.returned:
            return self.taken
        sums = tuple(map(sub, self.taken.sums, self.returned))
        return FilterState(sums, self.taken.unbounded)

    @property
    def numbers(self) -> tuple[int, ...]:
        """All running totals, which never decrease: taken, then returned."""
        returned = self.returned or (0,) * len(self.taken.sums)
        return (*self.taken.sums, *self.taken.unbounded, *returned)


class Taken:
    """A payment that `Budget.take` made; `return_rest` of that budget accepts it once.

    It cannot be copied, and serves the process that made it: a copy, as a fork makes one too, would
    give the same rest back again.
    """

    __slots__ = ("__budget", "__event", "__process", "__unused")

    def __init__(self, event: Event, budget: "Budget") -> None:
        self.__event, self.__budget, self.__process = event, budget, os.getpid()
        self.__unused = [True]  # popping it is one step, so that of two threads one is refused

    @property
    def event(self) -> Event:
        """The event that was paid for."""
        return self.__event

    def check(self, budget: "Budget") -> None:
        """Raise ValueError unless this budget, in this process, made the payment."""
        if self.__budget is not budget or self.__process != os.getpid():
            raise ValueError("this was taken from another budget, or in another process")

    def use(self) -> None:
        """Mark the payment as used. Raises ValueError where it already was."""
        try:
            self.__unused.pop()
        except IndexError:
            raise ValueError("the rest of this call was given back before") from None

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("what a call took has no copies: its rest is given back once")


class Budget:
    """(epsilon, delta) for all calls together. Give it to `sample` as `budget=`.

    What a call costs is taken before it reads a row, and stays taken if the call fails. One Budget
    stands for one set of rows, in all threads. Without a path it is kept in memory, in one process,
    and cannot be copied: a copy would spend the same epsilon again. `save` gives a budget a file
    later, and `load` reads one. Calls of pure epsilon fit as well while all epsilons together do.

    Parameters
    ----------
    epsilon, delta
        The guarantee for all calls together.
    failure_share
        Share of delta, at most 1/2, that is kept for releases of medians and maxima, which cost a
        delta of their own; without it none fits.
    path
        The file that keeps the budget, made where there is none. An existing one must keep the same
        epsilon, delta and failure_share. Several processes may use one file at once.

    Raises
    ------
    ValueError
        If epsilon, delta or failure_share is out of range, or the file keeps another budget.
    OSError
        If the file cannot be read or written.

    Examples
    --------
    >>> budget = Budget(epsilon=2, delta=1e-6)
    >>> fit = sample("cured ~ dose", rows, schema, epsilon=1, budget=budget)
    >>> print(budget)
    """

    __slots__ = ("_file", "_lock", "_process", "_spent", "_terms")

    def __init__(
        self,
        epsilon: float,
        delta: float,
        failure_share: float = 0.0,
        *,
        path: "str | os.PathLike[str] | None" = None,
    ) -> None:
        self._terms = _terms_of(epsilon, delta, failure_share)
        if self._terms.delta > MOST_DELTA:
            raise ValueError(f"delta {TOO_LARGE}")
        self._spent = _Spent(FilterState.empty(self._terms), 0)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._file: Path | None = None
        if path is None:
            return
        file = _checked_path(path)
        if not file.exists():
            with suppress(FileExistsError):  # another process made it meanwhile
                _create(file, self._terms, self._spent)
        with _locked(file):
            kept, self._spent = _read(file)
        if kept != self._terms:
            raise ValueError(
                f"{file} keeps a budget of epsilon {kept.epsilon:g} at delta {kept.delta:g},"
                f" failure_share {kept.failure_weight:g}: declare the same, or read it with"
                " Budget.load"
            )
        self._file = file

    @classmethod
    def load(cls, path: "str | os.PathLike[str]") -> "Budget":
        """Return the budget of a file; its spending is written there.

        Raises OSError where there is no such file, ValueError where it keeps no budget or is
        damaged.
        """
        file = _checked_path(path)
        with _locked(file):
            terms, _ = _read(file)
        return cls(terms.epsilon, terms.delta, terms.failure_weight, path=file)

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Save the budget to a new file, which keeps it from now on: see `load`.

        Raises FileExistsError where the file is there, ValueError where the budget has another
        file: two files would be two budgets.
        """
        file = _checked_path(path)
        self._check_process()
        with self._lock:
            if self._file is None:
                _create(file, self._terms, self._spent)
                self._file = file
            elif self._file != file:
                raise ValueError(f"this budget is kept in {self._file} already")

    @property
    def epsilon(self) -> float:
        """Epsilon of all calls together."""
        return self._terms.epsilon

    @property
    def delta(self) -> float:
        """Delta of all calls together."""
        return self._terms.delta

    @property
    def failure_share(self) -> float:
        """The share of delta reserved for releases of medians and maxima."""
        return self._terms.failure_weight

    @property
    def calls(self) -> int:
        """Number of calls that have spent budget."""
        return self._now().calls

    @property
    def spent(self) -> float:
        """Composed epsilon of all calls so far, at the budget's delta."""
        return spent_epsilon(self._terms, self._now().state)

    @property
    def remaining(self) -> float:
        """Largest epsilon of a Gaussian call that is still accepted, at the budget's delta."""
        return remaining_epsilon(self._terms, self._now().state)

    @property
    def remaining_pure(self) -> float:
        """Largest pure epsilon, of Laplace noise or randomised response, still accepted."""
        return remaining_pure_epsilon(self._terms, self._now().state)

    @property
    def remaining_failure(self) -> float:
        """Remaining share of delta for releases of medians and maxima."""
        return failure_left(self._terms, self._now().state)

    def take(self, event: Event, unit: str = ROW) -> Taken:
        """Spend what an event costs. Returns the payment, for `return_rest`.

        unit: whom the event protects, `Schema.unit`. Raises BudgetExhaustedError where it does not
        fit, ValueError where the budget's calls so far protect another unit; then nothing is taken.
        """
        self._check_process()
        cost = entry_cost(self._terms, event)
        with self._lock, self._newest() as before:
            if before.calls and before.unit != unit:
                raise ValueError(
                    f"this budget's calls protect {_named(before.unit)}, and this call would"
                    f" protect {_named(unit)}: the two promises do not add up, so give each its"
                    " own budget"
                )
            if self._terms.accepts(before.state.add(cost)):
                taken = before.taken.add(cost)
                self._keep(_Spent(taken, before.calls + 1, before.returned, unit))
                return Taken(event, self)
        raise self._exhausted(before.state, cost)

    def return_rest(self, taken: Taken, drawn: Event) -> None:
        """Return to the budget what a call that stopped early did not draw.

        taken: by this budget for the call. drawn: how its event began, and nothing else happened to
        the rows. Raises ValueError where it did not begin so, where another budget took it, or for
        the second time; then nothing is given back.
        """
        self._check_process()
        taken.check(self)
        if not begins(taken.event, drawn):
            raise ValueError("what was drawn is not how the call's event begins")
        taken.use()
        total, part_drawn = (entry_cost(self._terms, event) for event in (taken.event, drawn))
        rest = [part or 0 for part in total.beyond(part_drawn).vector]
        with self._lock, self._newest() as before:
            returned = before.returned or (0,) * len(rest)
            returned = tuple(map(add, returned, rest))
            self._keep(replace(before, returned=returned))

    def _exhausted(self, state: FilterState, cost: EntryCost) -> BudgetExhaustedError:
        """Return the error for a cost that does not fit."""
        alone = FilterState.empty(self._terms).add(cost)
        requested = spent_epsilon(self._terms, alone)
        remaining, why = remaining_for(self._terms, state, cost), ""
        failure, left = float(in_units(cost.failure or 0)), failure_left(self._terms, state)
        if failure > left:
            why = (
                f"this call fails with probability {failure:.4g}, and {rounded_down(left)} is left"
                " of the share of delta that is kept for that, which failure_share says:"
                " Budget(..., failure_share=0.1) keeps a tenth"
            )
        elif math.isinf(requested):
            why = "this call has a kind of noise that no branch of a Budget bounds"
        return BudgetExhaustedError(requested, remaining, self.delta, why)

    def _check_process(self) -> None:
        """Refuse to spend in a forked process, which would share its parent's budget.

        Of a budget in a file the lock is made anew there: a thread that held it was not forked.
        """
        if os.getpid() == self._process:
            return
        if self._file is not None:
            self._lock, self._process = threading.Lock(), os.getpid()
        else:
            raise ValueError(
                "this Budget was made in another process, which may spend it too: keep it in a"
                " file that both read, Budget(..., path=...)"
            )

    @contextmanager
    def _newest(self) -> Iterator[_Spent]:
        """Yield the current totals, holding the lock against other processes."""
        if self._file is None:
            yield self._spent
            return
        with _locked(self._file):
            yield self._read_file()

    def _read_file(self) -> _Spent:
        """Return the file's totals. Raises ValueError where they have decreased."""
        if self._file is None:
            return self._spent
        known = self._spent  # first: meanwhile a thread may spend, and the file only says more
        terms, read = _read(self._file)
        pairs = zip(read.numbers, known.numbers, strict=True)
        if terms != self._terms or any(now < before for now, before in pairs):
            raise ValueError(f"{self._file} is not the budget's any more: an older file is there")
        return read

    def _keep(self, spent: _Spent) -> None:
        """Store the totals, in the file if there is one."""
        if self._file is not None:
            _replace(self._file, self._terms, spent)
        self._spent = spent

    def _now(self) -> _Spent:
        """Return the current totals."""
        return self._spent if self._file is None else self._read_file()

    def __reduce_ex__(self, _: object) -> Any:
        if self._file is None:
            raise TypeError(
                "a Budget in memory has no copies, which would spend it twice: keep it in a file,"
                " Budget(..., path=...), and load that"
            )
        return Budget.load, (str(self._file),)

    def __str__(self) -> str:
        """Return a text with the spent and remaining budget."""
        now = self._now()
        calls = "1 call" if now.calls == 1 else f"{now.calls} calls"
        return (
            f"epsilon {self.epsilon:g} at delta {self.delta:g}:"
            f" {spent_epsilon(self._terms, now.state):.4g} spent by {calls},"
            f" {self._room(now.state)}"
        )

    def _room(self, state: FilterState) -> str:
        """Return a text with the largest call that still fits, rounded down."""
        no_failure = self.failure_share and not failure_left(self._terms, state)
        return self._largest(state) + (", no median or maximum does" if no_failure else "")

    def _largest(self, state: FilterState) -> str:
        """Return the largest call that fits, in words."""
        gaussian = remaining_epsilon(self._terms, state)
        pure = remaining_pure_epsilon(self._terms, state)
        if max(gaussian, pure) < LEAST_ASKED:
            return "no further call fits"
        if gaussian >= pure * (1.0 - ROUNDING):
            return f"a call of {rounded_down(gaussian)} still fits"
        return f"a call of pure epsilon {rounded_down(pure)} still fits"

    def __repr__(self) -> str:
        kept = "" if self._file is None else f", path={str(self._file)!r}"
        share = f", failure_share={self.failure_share:g}" if self.failure_share else ""
        return f"Budget(epsilon={self.epsilon:g}, delta={self.delta:g}{share}{kept})"


def _terms_of(epsilon: object, delta: object, failure_share: object) -> FilterTerms:
    """Return the filter terms of a budget. Raises ValueError on invalid ones."""
    numbers = []
    for name, value in (("epsilon", epsilon), ("delta", delta), ("failure_share", failure_share)):
        if not isinstance(value, Real) or isinstance(value, bool):
            raise ValueError(f"{name} must be a number")
        try:
            numbers.append(float(value))
        except OverflowError:
            raise ValueError(f"{name} is too large") from None
    if not 0.0 <= numbers[2] <= 0.5:
        raise ValueError("failure_share must lie between 0 and 1/2")
    kept = round(numbers[2], 12)
    rest = round(1.0 - numbers[2], 12)
    return FilterTerms(numbers[0], numbers[1], gdp_weight=rest, basic=True, failure_weight=kept)


def _checked_path(path: object) -> Path:
    """Return the path with symbolic links resolved, so that a file has one name."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError("the path of a file is needed, such as 'budget.json'")
    if fcntl is None:
        raise ValueError("this system locks no files, so that a budget can only be in memory")
    file = Path(os.path.realpath(os.fspath(path)))
    if file.exists() and not file.is_file() and not file.is_dir():
        raise ValueError(f"{file} is no file that keeps a budget, but a device, a pipe or a socket")
    return file


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Lock a budget's file while it is read and replaced, by one thread of one process."""
    while True:
        with file.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            try:
                if _is_still(file, held.fileno()):
                    yield
                    return
            finally:  # closing alone frees nothing that a forked process has inherited
                fcntl.flock(held, fcntl.LOCK_UN)


def _is_still(file: Path, held: int) -> bool:
    """Return whether an open file is still the one at this path.

    Raises ValueError where it has another name, which would keep what is spent by now for good.
    """
    opened = os.fstat(held)
    try:
        if not os.path.samestat(opened, file.stat()):
            return False
    except FileNotFoundError:
        raise FileNotFoundError(f"the budget's file {file} is gone") from None
    if opened.st_nlink > 1:
        raise ValueError(
            f"{file} has another name (a hard link), under which the same budget would be spent"
            " again: delete that one, or make it a symbolic link"
        )
    return True


def _read(file: Path) -> tuple[FilterTerms, _Spent]:
    """Return the terms and totals of a file. Raises ValueError where it is no intact budget."""
    try:
        facts = json.loads(file.read_text("utf-8"))
        checksum = facts.pop("checksum")
        version = facts.pop("version")
        ours = facts.pop("format") == FORMAT
        later = ours and type(version) is int and version > max(VERSIONS)
        if later:
            raise _LaterVersionError(
                f"{file} was written by a later version of dpmcmc: read it with that one"
            )
        if not ours or version not in VERSIONS or checksum != _checksum(facts):
            raise ValueError("damaged")
        terms = _terms_of(facts["epsilon"], facts["delta"], facts["failure_share"])
        sums, unbounded = tuple(map(int, facts["sums"])), tuple(map(int, facts["unbounded"]))
        empty, calls = FilterState.empty(terms), facts["calls"]
        given_back = version == VERSION_WITH_RETURNS or "returned" in facts
        returned = tuple(map(int, facts["returned"])) if given_back else ()
        unit = facts["unit"] if version == VERSION_WITH_UNIT else ROW
        if len(sums) != len(empty.sums) or len(unbounded) != len(sums):
            raise ValueError("damaged")
        if type(unit) is not str or not unit:
            raise ValueError("damaged")
        if type(calls) is not int or min(*sums, *unbounded, *returned, calls) < 0:
            raise ValueError("damaged")
        if returned and any(part > whole for part, whole in zip(returned, sums, strict=True)):
            raise ValueError("damaged")
    except _LaterVersionError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError(f"{file} keeps no budget, or is damaged: nothing is spent by it") from None
    return terms, _Spent(FilterState(sums, unbounded), calls, returned, unit)


def _named(unit: str) -> str:
    """Return the unit in words, for an error."""
    return "a row" if unit == ROW else f"a person ({unit})"


def _checksum(facts: dict[str, Any]) -> str:
    """Return the checksum of a file's facts."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _written(file: Path, terms: FilterTerms, spent: _Spent) -> Path:
    """Return a new, synced file beside the budget's, with these facts."""
    facts = {
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "failure_share": terms.failure_weight,
        "calls": spent.calls,
        "sums": [str(total) for total in spent.taken.sums],
        "unbounded": list(spent.taken.unbounded),
    }
    version = VERSION
    if spent.returned:  # an older release would count it as spent, and then forget it
        facts["returned"], version = (
            [str(mu_squared) for mu_squared in spent.returned],
            VERSION_WITH_RETURNS,
        )
    if spent.unit != ROW:  # an older release would add its rows to it
        facts["unit"], version = spent.unit, VERSION_WITH_UNIT
    head = {"format": FORMAT, "version": version, "checksum": _checksum(facts)}
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from None
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as text:
            json.dump(head | facts, text, indent=1)
            text.flush()
            os.fsync(text.fileno())
    except BaseException:
        temporary.unlink()
        raise
    return temporary


def _create(file: Path, terms: FilterTerms, spent: _Spent) -> None:
    """Write a new budget file. Raises FileExistsError where one exists, or OSError."""
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    temporary = _written(file, terms, spent)
    with temporary.open("rb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # until it has one name alone
        try:
            os.link(temporary, file)
        except FileExistsError:
            raise FileExistsError(f"{file} is there already: Budget.load reads it") from None
        finally:
            temporary.unlink()
            fcntl.flock(handle, fcntl.LOCK_UN)
    _sync_folder(file)


def _replace(file: Path, terms: FilterTerms, spent: _Spent) -> None:
    """Replace the facts in a locked file atomically."""
    temporary = _written(file, terms, spent)
    try:
        temporary.chmod(file.stat().st_mode & 0o777)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(file)


def _sync_folder(file: Path) -> None:
    """Sync the folder of a file, so that a rename survives a crash."""
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
