"""A library's budget: it holds in all threads and processes, and outlives the notebook."""

import contextlib
import copy
import dataclasses
import json
import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest

from dpmcmc import Budget, BudgetExhaustedError, Schema, release_statistic
from dpmcmc.privacy.accountant import noise_multiplier_for
from dpmcmc.privacy.events import Gaussian, PureEpsilon

DELTA = 1e-6


def small(jobs):
    """A job of which a budget of epsilon 1 takes this many."""
    return Gaussian(noise_multiplier_for(1.0, DELTA, jobs))


def spend_all(budget, event, tries):
    """How often an event fits into a budget."""
    taken = 0
    for _ in range(tries):
        try:
            budget.take(event)
            taken += 1
        except BudgetExhaustedError:
            break
    return taken


def together(number, work):
    """Run work in threads that take turns as often as Python lets them."""
    found, failed = [], []

    def safely():
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=safely) for _ in range(number)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(before)
    assert not failed
    return found


@pytest.mark.parametrize("kept", ["memory", "file"])
def test_threads_together_take_no_more_than_there_is(kept, tmp_path):
    fits = 400 if kept == "memory" else 40
    budget = Budget(1.0, DELTA, path=None if kept == "memory" else tmp_path / "budget.json")
    taken = together(8, lambda: spend_all(budget, small(fits), fits // 2))
    assert sum(taken) == budget.calls == fits
    assert budget.spent <= 1.0


def test_a_thread_waits_while_another_spends(monkeypatch):
    """Where it need not, both have seen room for one by the time that they write."""
    budget, both, keep = Budget(1.0, DELTA), threading.Barrier(2), Budget._keep

    def slowly(self, spent):
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        keep(self, spent)

    monkeypatch.setattr(Budget, "_keep", slowly)
    assert sum(together(2, lambda: spend_all(budget, small(1), 1))) == 1


@pytest.mark.parametrize("kept", ["memory", "file"])
def test_what_is_spent_and_how_often_is_one_fact(kept, tmp_path):
    """A reader in another thread never sees a call without its cost, nor an older file."""
    budget = Budget(1.0, DELTA, path=None if kept == "memory" else tmp_path / "budget.json")
    ends = threading.Event()
    roles = iter(["write", "read", "read"])

    def work():
        lines = set()
        if next(roles) == "write":
            spend_all(budget, small(50), 50)
            ends.set()
        else:
            lines.add(str(budget))
        while not ends.is_set():
            lines.add(str(budget))
        return lines

    told = {}
    for line in set().union(*together(3, work)):
        calls = line.partition(" spent by ")[2].partition(" call")[0]
        told.setdefault(calls, []).append(line)
    assert told
    assert all(len(lines) == 1 for lines in told.values())


def test_first_uses_in_many_threads_find_no_module_half_made():
    code = """
import sys, threading
import dpmcmc
failed = []
def use(name):
    try:
        getattr(dpmcmc, name)
    except BaseException as error:
        failed.append(repr(error))
sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=use, args=(name,)) for name in dpmcmc.__all__]
for one in threads: one.start()
for one in threads: one.join()
sys.exit("; ".join(failed) or None)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps, dataclasses.replace])
def test_a_budget_in_memory_has_no_copies(copied):
    with pytest.raises(TypeError):
        copied(Budget(1.0, DELTA))


@pytest.mark.parametrize("name", ["epsilon", "delta", "failure_share", "calls", "spent"])
def test_a_promise_is_not_changed_afterwards(name):
    budget = Budget(1.0, DELTA)
    with pytest.raises(AttributeError):
        setattr(budget, name, 100.0)
    assert not hasattr(budget, "__dict__")


def test_a_forked_process_does_not_spend_what_its_parent_may_spend():
    budget = Budget(1.0, DELTA)
    child = os.fork()
    if child == 0:
        try:
            budget.take(small(2))
        except ValueError as error:
            os._exit(0 if "path=" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def forked_call(budget):
    """Fork a process that takes one call; it is killed where it waits. Returns its number."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        budget.take(small(10))
        os._exit(0)
    return child


def test_a_process_forked_while_a_thread_spends_does_not_wait_for_it(tmp_path):
    """The thread that holds the lock is not in the new process."""
    budget = Budget(1.0, DELTA, path=tmp_path / "budget.json")
    with budget._lock:
        child = forked_call(budget)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    budget.take(small(10))
    assert budget.calls == 2


def test_a_process_forked_while_a_thread_has_the_file_does_not_keep_it(tmp_path):
    """It has inherited the open file, and with it the lock."""
    budget = Budget(1.0, DELTA, path=tmp_path / "budget.json")
    with budget._newest():
        child = forked_call(budget)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert budget.calls == 1


# --- a budget in a file


def spend_from(path, tries, found):
    try:
        found.put(spend_all(Budget.load(path), small(40), tries))
    except Exception as error:
        found.put(error)


def test_processes_share_a_file_and_take_no_more_than_there_is(tmp_path):
    path = tmp_path / "budget.json"
    Budget(1.0, DELTA).save(path)
    context = multiprocessing.get_context("fork")
    found = context.Queue()
    processes = [context.Process(target=spend_from, args=(path, 20, found)) for _ in range(4)]
    for one in processes:
        one.start()
    taken = [found.get(timeout=120) for _ in processes]
    for one in processes:
        one.join()
    assert all(isinstance(one, int) for one in taken), taken
    assert sum(taken) == Budget.load(path).calls == 40


def test_two_fresh_interpreters_of_fifty_calls_take_no_more_than_there_is(tmp_path):
    """Nothing but the file is shared: no fork, no queue."""
    path = tmp_path / "budget.json"
    Budget(1.0, DELTA).save(path)
    code = f"""
import sys
from dpmcmc import Budget, BudgetExhaustedError
from dpmcmc.privacy.events import Gaussian
taken = 0
for _ in range(50):
    try:
        Budget.load(sys.argv[1]).take(Gaussian({small(60).noise_multiplier!r}))
        taken += 1
    except BudgetExhaustedError:
        pass
print(taken)
"""
    words = [sys.executable, "-c", code, str(path)]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    taken = [int(one.communicate(timeout=300)[0]) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sum(taken) == Budget.load(path).calls == 60
    assert os.listdir(tmp_path) == ["budget.json"]


def test_a_new_notebook_goes_on_with_what_is_left(tmp_path):
    path = tmp_path / "budget.json"
    first = Budget(1.0, DELTA, failure_share=0.1, path=path)
    first.take(small(10))
    second = Budget(1.0, DELTA, failure_share=0.1, path=path)
    assert (second.calls, second.spent, second.remaining) == (1, first.spent, first.remaining)
    second.take(small(10))
    third = Budget.load(str(path))
    assert first.calls == third.calls == 2  # each sees what the others took
    assert (third.epsilon, third.delta, third.failure_share) == (1.0, DELTA, 0.1)
    assert str(first) == str(third)


def test_a_budget_in_memory_is_saved_with_what_it_spent_and_goes_on_in_the_file(tmp_path):
    budget = Budget(1.0, DELTA)
    budget.take(small(10))
    budget.save(tmp_path / "budget.json")
    budget.take(small(10))
    assert Budget.load(tmp_path / "budget.json").calls == 2
    budget.save(tmp_path / "budget.json")  # where it is already
    with pytest.raises(ValueError, match=r"kept in .*budget\.json already"):
        budget.save(tmp_path / "other.json")
    with pytest.raises(FileExistsError, match=r"Budget\.load"):
        Budget(1.0, DELTA).save(tmp_path / "budget.json")
    assert os.listdir(tmp_path) == ["budget.json"]


def test_a_link_to_a_file_is_the_same_budget(tmp_path):
    Budget(1.0, DELTA, path=tmp_path / "budget.json")
    (tmp_path / "link").symlink_to(tmp_path / "budget.json")
    Budget.load(tmp_path / "link").take(small(10))
    assert (tmp_path / "link").is_symlink()
    assert Budget.load(tmp_path / "budget.json").calls == 1


def test_a_second_name_of_a_file_is_no_second_budget(tmp_path):
    """What is spent replaces the file of one name, and the other would keep what was there."""
    path, other = tmp_path / "budget.json", tmp_path / "other.json"
    budget = Budget(1.0, DELTA, path=path)
    os.link(path, other)
    for use in (lambda: budget.take(small(10)), lambda: Budget.load(other)):
        with pytest.raises(ValueError, match=r"hard link.*delete that one"):
            use()
    other.unlink()
    budget.take(small(10))
    assert Budget.load(path).calls == 1


def test_threads_that_make_one_file_at_once_share_it(tmp_path):
    path = tmp_path / "budget.json"
    taken = together(8, lambda: spend_all(Budget(1.0, DELTA, path=path), small(20), 20))
    assert sum(taken) == Budget.load(path).calls == 20


def test_a_budget_in_a_file_may_be_sent_to_another_process(tmp_path):
    budget = Budget(1.0, DELTA, path=tmp_path / "budget.json")
    pickle.loads(pickle.dumps(budget)).take(small(10))
    assert (budget.calls, copy.deepcopy(budget).calls) == (1, 1)


@pytest.mark.parametrize(
    "other", [(2.0, DELTA, 0.1), (1.0, 2 * DELTA, 0.1), (1.0, DELTA, 0.2), (1.0, DELTA, 0.0)]
)
def test_a_file_of_another_promise_is_refused(tmp_path, other):
    Budget(1.0, DELTA, 0.1, path=tmp_path / "budget.json")
    with pytest.raises(ValueError, match="keeps a budget of epsilon 1 at delta 1e-06"):
        Budget(*other, path=tmp_path / "budget.json")


def changed(**facts):
    return lambda text: json.dumps(json.loads(text) | facts)


DAMAGES = {
    "empty": lambda _: "",
    "cut off": lambda text: text[: len(text) // 2],
    "no JSON": lambda _: "epsilon: 1",
    "a list": lambda _: "[]",
    "nested": lambda _: "[" * 100_000,
    "bytes": lambda _: b"\xff\xfe\x00",
    "another file": lambda _: '{"epsilon": 1}',
    "another format": changed(format="dpmcmc fit"),
    "another version": changed(version=2),
    "a version that is a word": changed(version="two"),
    "no version": changed(version=0),
    "less spent": changed(sums=["0", "0", "0"]),
    "a larger epsilon": changed(epsilon=100.0),
    "a larger delta": changed(delta=0.1),
    "a larger share": changed(failure_share=0.5),
    "fewer calls": changed(calls=0),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_in_one_line(tmp_path, damage):
    path = tmp_path / "budget.json"
    budget = Budget(1.0, DELTA, path=path)
    budget.take(small(10))
    spoilt = DAMAGES[damage](path.read_text())
    path.write_bytes(spoilt if isinstance(spoilt, bytes) else spoilt.encode())
    for use in (
        lambda: Budget.load(path),
        lambda: Budget(1.0, DELTA, path=path),
        lambda: budget.take(small(10)),
        lambda: budget.spent,
    ):
        with pytest.raises(ValueError, match="keeps no budget, or is damaged") as found:
            use()
        assert "\n" not in str(found.value)


def test_a_file_cut_off_anywhere_is_refused(tmp_path):
    path = tmp_path / "budget.json"
    Budget(1.0, DELTA, path=path).take(small(10))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is damaged"):
            Budget.load(path)


def test_a_file_of_a_later_version_is_told_and_left_alone(tmp_path):
    """Who is told that it is damaged makes a fresh one."""
    path = tmp_path / "budget.json"
    budget = Budget(1.0, DELTA, path=path)
    later = json.loads(path.read_text()) | {"version": 99, "more": [1]}
    path.write_text(json.dumps(later))
    for use in (
        lambda: Budget.load(path),
        lambda: Budget(1.0, DELTA, path=path),
        lambda: budget.take(small(10)),
    ):
        with pytest.raises(ValueError, match="written by a later version of dpmcmc") as found:
            use()
        assert "damaged" not in str(found.value)
    assert json.loads(path.read_text()) == later


@pytest.mark.parametrize("name", ["missing/budget.json", "file/budget.json"])
def test_a_folder_that_is_none_is_named(tmp_path, name):
    (tmp_path / "file").write_text("")
    path = tmp_path / name
    for make in (lambda: Budget(1.0, DELTA, path=path), lambda: Budget(1.0, DELTA).save(path)):
        with pytest.raises(OSError, match=r"No such|Not a") as found:
            make()
        assert found.value.filename == str(path)


def test_a_path_that_is_a_folder_is_told(tmp_path):
    for path in (tmp_path, ""):
        with pytest.raises(IsADirectoryError):
            Budget(1.0, DELTA, path=path)
        with pytest.raises(IsADirectoryError):
            Budget(1.0, DELTA).save(path)


def test_an_older_file_is_not_taken_for_the_budget(tmp_path):
    path = tmp_path / "budget.json"
    budget = Budget(1.0, DELTA, path=path)
    budget.take(small(10))
    older = path.read_bytes()
    budget.take(small(10))
    path.write_bytes(older)
    with pytest.raises(ValueError, match="an older file is there"):
        budget.take(small(10))


def test_a_file_that_is_gone_is_not_made_anew(tmp_path):
    path = tmp_path / "budget.json"
    budget = Budget(1.0, DELTA, path=path)
    path.unlink()
    for use in (lambda: budget.take(small(10)), lambda: budget.spent, lambda: Budget.load(path)):
        with pytest.raises(FileNotFoundError):
            use()
    assert not path.exists()


@pytest.mark.parametrize("path", [3, None, b"budget.json", [], True])
def test_a_path_is_a_path(path):
    with pytest.raises(TypeError, match="path of a file"):
        Budget.load(path)
    with pytest.raises(TypeError, match="path of a file"):
        Budget(1.0, DELTA).save(path)


def test_what_cannot_be_written_is_not_spent(tmp_path, monkeypatch):
    budget = Budget(1.0, DELTA, path=tmp_path / "budget.json")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        budget.take(small(10))
    monkeypatch.undo()
    assert budget.calls == 0
    assert os.listdir(tmp_path) == ["budget.json"]


@pytest.mark.parametrize("kind", ["a device", "a pipe"])
def test_a_path_of_a_device_or_a_pipe_is_told(tmp_path, kind):
    """Reading one has no end, or waits for a writer."""
    path = "/dev/zero"
    if kind == "a pipe":
        os.mkfifo(path := tmp_path / "pipe")
    for use in (Budget.load, lambda path: Budget(1.0, DELTA, path=path), Budget(1.0, DELTA).save):
        with pytest.raises(ValueError, match="no file that keeps a budget"):
            use(path)


# --- pure epsilon, and what a budget says of what is left

ROWS = 40
DATA = {"x": np.linspace(0, 1, ROWS), "y": ["no", "yes"] * (ROWS // 2)}
SCHEMA = Schema.from_frame(DATA, {"x": (0, 1), "y": ("no", "yes")})
PURE = {
    "laplace": {"column": "x", "noise": "laplace"},
    "randomised response": {"column": "y", "noise": "randomised_response", "form": "sequential"},
}


def release(budget, epsilon, kind="laplace", **given):
    return release_statistic(
        DATA, schema=SCHEMA, epsilon=epsilon, budget=budget, **PURE[kind] | given
    )


@pytest.mark.parametrize("kind", PURE)
@pytest.mark.parametrize("whole", [0.3, 1.0, 3.0, 2.7])
@pytest.mark.parametrize("parts", [1, 2, 3, 7, 10, 11])
def test_equal_parts_of_pure_epsilon_spend_a_budget_in_full(kind, whole, parts):
    budget = Budget(whole, DELTA)
    for _ in range(parts):
        release(budget, whole / parts, kind)
    assert budget.calls == parts
    assert budget.spent == pytest.approx(whole, rel=1e-12)
    assert budget.spent <= whole
    with pytest.raises(BudgetExhaustedError):
        release(budget, whole / parts / 100, kind)
    assert str(budget).endswith("no further call fits")


@pytest.mark.parametrize("epsilons", [[0.1] * 10, [0.1, 0.9], [0.3, 0.3, 0.4], [0.1, 0.2, 0.7]])
def test_decimals_that_add_up_to_a_budget_fit_it(epsilons):
    budget = Budget(1.0, DELTA)
    for epsilon in epsilons:
        release(budget, epsilon)
    with pytest.raises(BudgetExhaustedError):
        release(budget, 0.01)


@pytest.mark.parametrize("kind", PURE)
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.3, 1.0, 2.7, 10.0])
def test_what_is_charged_is_no_less_than_what_the_mechanism_does(kind, epsilon):
    """In exact arithmetic: of Laplace noise 1 / z, of responses the log odds of their shares."""
    budget = Budget(epsilon, DELTA)
    told = release(budget, epsilon, kind)
    charged = Fraction(budget._spent.state.sums[-2], 2**96)
    assert charged <= Fraction(epsilon)
    if kind == "laplace":  # noise of a sum: its range over its scale
        assert 1 / Fraction(told.noise.scale) <= charged
    else:
        share = Fraction(told.noise.keep_probability)
        assert float(share / (1 - share)) <= math.exp(float(charged)) * (1 + 1e-15)


def test_what_still_fits_is_what_is_said():
    budget = Budget(1.0, DELTA)
    assert str(budget).endswith("0 spent by 0 calls, a call of 1 still fits")
    release(budget, 0.3)
    assert str(budget).endswith("0.3 spent by 1 call, a call of pure epsilon 0.7 still fits")
    with pytest.raises(BudgetExhaustedError, match=r"costs epsilon 0\.8 .*, and 0\.7 is left"):
        release(budget, 0.8)
    release(budget, budget.remaining_pure)
    with pytest.raises(BudgetExhaustedError):
        release(budget, 1e-3)


@pytest.mark.parametrize("first", ["gaussian", "laplace"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.55, 0.9])
def test_a_call_of_what_is_left_fits_and_one_of_slightly_more_does_not(first, share):
    def fresh():
        budget = Budget(2.0, DELTA)
        release(budget, 2.0 * share, noise=first)
        return budget

    for kind, left in (("laplace", fresh().remaining_pure), ("gaussian", fresh().remaining)):
        if left > 0.0:
            release(fresh(), left, noise=kind)
        with pytest.raises(BudgetExhaustedError):
            release(fresh(), left * 1.001 + 1e-6, noise=kind)


def test_what_a_refusal_says_is_left_fits():
    """Rounded to the nearest, .037577 was told as .03758, which is refused as well."""
    for first in np.linspace(0.011, 0.987, 60):
        budget = Budget(1.0, DELTA)
        release(budget, first)
        with pytest.raises(BudgetExhaustedError) as refused:
            release(budget, 1.0)
        release(budget, float(str(refused.value).split(", and ")[1].split()[0]))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_failure_share_is_spent_in_full_and_its_end_is_told(share):
    budget = Budget(20.0, 1e-5, failure_share=share)
    median = {"form": "median", "noise": "smooth_laplace"}
    release(budget, 0.1, delta=1e-5 * share, **median)
    with pytest.raises(BudgetExhaustedError, match="left of the share of delta") as found:
        release(budget, 0.1, delta=1e-7, **median)
    assert found.value.remaining == 0.0
    assert "19" not in str(found.value)
    release(budget, 1.0, noise="gaussian")


def test_a_delta_that_is_not_named_suits_noise_and_budget():
    assert release_statistic(DATA, "x", schema=SCHEMA, epsilon=1.0).cost.delta == 1e-6
    own = {"noise": "gaussian"}
    assert release(Budget(9.0, 1e-8), 1.0, **own).cost.delta == 1e-8
    assert release(Budget(9.0, 1e-8), 1.0).cost.delta == 0.0
    median = {"form": "median", "noise": "smooth_laplace"}
    assert release(Budget(9.0, 1e-8, 0.1), 1.0, **median).cost.delta == pytest.approx(1e-9)
    assert release_statistic(DATA, "x", schema=SCHEMA, epsilon=1.0, **median).cost.delta == 1e-6


def test_what_is_left_for_each_kind_of_noise_is_told_apart():
    data = {"x": np.linspace(0.0, 1.0, 5000)}
    schema = Schema.from_frame(data, {"x": (0, 1)})
    median = {"form": "median", "noise": "smooth_laplace", "delta": 1e-7}
    budget = Budget(20.0, 1e-6, failure_share=0.1)
    assert budget.remaining_failure == pytest.approx(1e-7)
    release_statistic(data, "x", schema=schema, epsilon=1.0, budget=budget, **median)
    assert budget.remaining_failure == 0.0
    assert budget.remaining > 17.0
    assert "no median or maximum does" in str(budget)
    with pytest.raises(BudgetExhaustedError, match="share of delta"):
        release_statistic(data, "x", schema=schema, epsilon=1.0, budget=budget, **median)
    pure = Budget(2.0, 1e-6)
    release_statistic(data, "x", schema=schema, epsilon=0.5, noise="laplace", budget=pure)
    assert (pure.remaining, pure.remaining_pure) == (0.0, pytest.approx(1.5))
    assert "a call of pure epsilon 1.5 still fits" in str(pure)
    assert "median" not in str(pure)


def test_a_refused_call_of_pure_epsilon_hears_what_is_left_for_its_kind():
    """After Gaussian noise pure epsilon counts as more: .6 was refused with "2.8 is left"."""
    budget = Budget(epsilon=3.0, delta=1e-5)
    budget.take(Gaussian(noise_multiplier_for(1.0, 1e-6, 1)))
    with pytest.raises(BudgetExhaustedError) as refused:
        budget.take(PureEpsilon(0.6))
    assert refused.value.requested == 0.6
    assert 0.5 < refused.value.remaining < 0.6
    budget.take(PureEpsilon(refused.value.remaining))
