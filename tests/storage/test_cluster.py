"""Sums on a cluster: the bits of one process, ciphertext on every wire, no need of any worker."""

import contextlib
import os
import pickle
import secrets
import socket
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import dask
import numpy as np
import pytest

from app.settings import Settings
from app.storage import cluster as clusters
from app.storage import files as stored_files
from app.storage.cluster import (
    ORDER,
    SUM,
    Cluster,
    ClusterKey,
    ElsewhereError,
    Joint,
    Order,
    joint_sum,
    part_sum,
)
from app.storage.columns import columns_json
from app.storage.files import DatasetFiles, RowReader
from app.storage.keys import MasterKey
from app.storage.local_store import LocalStore
from app.storage.rows import DatasetRow
from dpmcmc import JobSpec, ModelSpec, NumberColumn, PrivacySpec, Schema, plan
from dpmcmc.base.private import Permit
from dpmcmc.fit.run import run
from dpmcmc.privacy.event_json import digest
from dpmcmc.releases import design_rows
from tests.sources import Seeded
from tests.storage.clusters import certificates, config_of, running, tls_of

ROWS, SIZE = 100_003, 8192
SENTINEL = np.float64(0.7390851332151607)  # of many rows of y, and nowhere else
SCHEMA = Schema(
    columns=tuple(NumberColumn(name=n, lower=-1.0, upper=1.0) for n in ("y", "a", "b")), rows=ROWS
)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(clusters, "PART_ROWS", SIZE)
    monkeypatch.setattr(clusters, "BRANCHES", 3)
    monkeypatch.setattr(clusters, "AHEAD", 2)
    monkeypatch.setattr(stored_files, "LARGEST_HELD", 0)
    monkeypatch.setattr(design_rows, "HELD_NUMBERS", 0)


class Kept:
    """A folder of datasets with one of them."""

    def __init__(self, folder):
        self.folder, self.id = folder, uuid.uuid4()
        self.files = DatasetFiles(LocalStore(folder / "datasets"), MasterKey(bytes(32)))
        rng = np.random.default_rng(3)
        a, b = rng.uniform(-1, 1, (2, ROWS))
        y = np.where(rng.random(ROWS) < 0.5, SENTINEL, np.clip(a - 0.5 * b, -1, 1))
        self.values = {"y": y, "a": a, "b": b}
        self.key, wrapped = self.files.new_key(self.id)
        with self.files.write(self.id, self.key, SCHEMA.columns) as writer:
            writer.add(list(self.values.values()))
        self.row = DatasetRow(
            id=self.id,
            columns=columns_json(SCHEMA.columns),
            rows=ROWS,
            neighbouring="replace_one",
            wrapped_key=wrapped,
        )

    @property
    def sealed(self):
        return stored_files.SealedFile(self.id, SCHEMA, self.key)

    def opened(self, spread=None):
        permit = Permit(subject=str(self.id), event_digest="")
        return self.files.load(self.row, spread=spread).open(permit)

    def released(self, spread=None, random=None):
        """Draws, and what is stored."""
        job = JobSpec(
            model=ModelSpec(family="linear", formula="y ~ a + b"),
            privacy=PrivacySpec(epsilon=2.0, delta=1e-7),
        )
        planned = plan(SCHEMA, job)
        permit = Permit(subject=str(self.id), event_digest=digest(planned.event))
        rows = self.files.load(self.row, spread=spread)
        running = run(SCHEMA, planned.spec, rows, permit, random=random or Seeded(1))
        draws = np.concatenate([block.value for block in running], axis=1)
        return draws, running.stored.to_dict()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return Kept(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def three(kept):
    """A cluster of three workers."""
    with running(kept.folder, 3) as made:
        yield made


@pytest.fixture
def warnings_of(monkeypatch):
    """What a job's process told of the cluster."""
    told = []

    class Log:
        def warning(self, event, **_):
            told.append(event)

    monkeypatch.setattr(clusters.logs, "logger", Log)
    return told


def cells(table):
    return np.array([np.trunc(2**20 * v).sum() for v in table.columns.values()] + [table.rows])


@pytest.mark.longer
def test_a_release_has_the_bits_of_one_process_and_draws_noise_once(kept, three, warnings_of):
    alone, together = Seeded(1), Seeded(1)
    expected = kept.released(random=alone)
    found = kept.released(three.cluster.spread("event"), random=together)
    assert (found[0] == expected[0]).all()
    assert found[1] == expected[1]
    assert alone.rng.bit_generator.state == together.rng.bit_generator.state
    assert warnings_of == []


def test_workers_make_all_of_the_sums(kept, three, monkeypatch, warnings_of):
    def unread(*_):
        raise AssertionError("read in the job's process")

    expected = kept.opened().summed(("y", "b"), 1000, cells)
    opened = kept.opened(three.cluster.spread("event"))
    monkeypatch.setattr(RowReader, "tables", unread)
    assert (opened.summed(("y", "b"), 1000, cells) == expected).all()
    assert expected[-1] == ROWS
    assert warnings_of == []


def test_rows_of_several_holders_are_summed_in_their_order(kept, three):
    files = [kept.sealed, kept.sealed]
    read = RowReader(LocalStore(kept.folder / "datasets")).tables
    local = lambda names, first=0, stop=None: read(files, clusters.at_once, names, first, stop)  # noqa: E731
    found = three.cluster.spread("event")(files, local)(("y",), 999, cells)
    assert (found == 2 * kept.opened().summed(("y",), 999, cells)).all()
    whole = np.concatenate([t.columns["y"] for t in local(("y",))])
    part = np.concatenate([t.columns["y"] for t in local(("y",), ROWS - 7, ROWS + 20_000)])
    assert (part == whole[ROWS - 7 : ROWS + 20_000]).all()


@pytest.mark.slow
def test_killed_workers_change_no_bit_and_no_noise(kept, tmp_path_factory):
    alone, together = Seeded(1), Seeded(1)
    expected = kept.released(random=alone)
    with running(kept.folder, 2) as made, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(kept.released, made.cluster.spread("event"), together)
        kills = 0
        while not asked.done() and kills < 5:
            made.kill(made.workers[kills % 2])
            kills += 1
            time.sleep(0.5)
        found = asked.result(240)
    assert kills == 5
    assert (found[0] == expected[0]).all()
    assert found[1] == expected[1]
    assert alone.rng.bit_generator.state == together.rng.bit_generator.state


@pytest.mark.longer
def test_a_cluster_that_goes_away_leaves_the_sums_to_the_job(kept, tmp_path, warnings_of):
    expected = kept.opened().summed(("a",), 500, cells)
    with running(kept.folder, 1) as made:
        opened = kept.opened(made.cluster.spread("event"))
        assert (opened.summed(("a",), 500, cells) == expected).all()
        assert warnings_of == []
        made.processes[0].kill()
        assert (opened.summed(("a",), 500, cells) == expected).all()
    assert (opened.summed(("a",), 500, cells) == expected).all()
    assert warnings_of == ["cluster_lost"]  # once: nobody is waited for at each sum


def test_a_cluster_that_is_not_there_costs_a_job_seconds(kept, monkeypatch, warnings_of):
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 0.5)
    away = Cluster("tcp://127.0.0.1:1", ClusterKey(bytes(32)), 60.0)
    expected = kept.opened().summed(("a",), 500, cells)
    assert (kept.opened(away.spread("event")).summed(("a",), 500, cells) == expected).all()
    assert warnings_of == ["cluster_lost"]


@pytest.mark.longer
def test_a_worker_that_stalls_is_not_waited_for_beyond_the_order(kept, warnings_of):
    expected = kept.opened().summed(("a",), 500, cells)
    with running(kept.folder, 1) as made:
        (worker,) = made.workers
        made.pause(worker)
        hasty = replace(made.cluster, patience=1.0)
        found = kept.opened(hasty.spread("event")).summed(("a",), 500, cells)
        made.go_on(worker)
    assert (found == expected).all()
    assert warnings_of == ["cluster_lost"]


@pytest.mark.longer
def test_with_tls_nobody_without_a_certificate_of_its_authority_reaches_a_cluster(
    kept, tmp_path, monkeypatch, warnings_of
):
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 3.0)
    ours, theirs = certificates(tmp_path, "ours"), certificates(tmp_path, "theirs")
    expected = kept.opened().summed(("a",), 500, cells)
    with dask.config.set(config_of(*ours)), running(kept.folder, 1, tls=tls_of(*ours)) as made:
        found = kept.opened(made.cluster.spread("event")).summed(("a",), 500, cells)
        assert warnings_of == []
        with dask.config.set(config_of(ours[0], theirs[1])):
            again = kept.opened(made.cluster.spread("event")).summed(("a",), 500, cells)
        assert warnings_of == ["cluster_lost"]
    assert (found == expected).all()
    assert (again == expected).all()


class Wire:
    """All packets of the loopback while it is open."""

    def __enter__(self):
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**26)
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.2)
        self._packets, self._over = [], False
        self._thread = threading.Thread(target=self._take)
        self._thread.start()
        return self

    def _take(self):
        while not self._over:
            with contextlib.suppress(TimeoutError):
                self._packets.append(self._socket.recv(2**17))

    def __exit__(self, *_):
        time.sleep(0.5)
        self._over = True
        self._thread.join()
        self._socket.close()
        self.bytes = b"".join(self._packets)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees all packets")
def test_neither_rows_nor_sums_nor_keys_are_on_the_wire_or_the_disk(kept, three):
    secret = SENTINEL.tobytes()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Wire() as wire,
        socket.create_connection(server.getsockname()) as sent,
    ):
        sent.sendall(secret)
    assert secret in wire.bytes  # what is in clear would be seen
    sums = []

    def change(table):
        return np.array([np.trunc(2**20 * table.columns["y"]).sum()])

    opened = kept.opened(three.cluster.spread("event"))
    with Wire() as wire:
        total = opened.summed(("y",), SIZE, change)
        kept.released(three.cluster.spread("event"))
    for first in range(0, ROWS, SIZE):
        y = kept.values["y"][first : first + SIZE]
        sums.append(np.trunc(2**20 * y).sum().tobytes())
    hidden = [secret, kept.key, three.key.encode(), bytes.fromhex(three.key), *sums]
    hidden.append(total[0].tobytes())
    assert len(wire.bytes) > 100_000  # orders and sealed sums
    assert b"part_sum" in wire.bytes  # without TLS: the name of a task is no secret
    assert [h for h in hidden if h in wire.bytes] == []
    files = [p for p in kept.folder.rglob("*") if p.is_file()]
    assert any(p.suffix == ".rows" for p in files)
    assert [p.name for p in files for h in hidden if h in p.read_bytes()] == []


# What a worker does with an order, without a cluster.


@pytest.fixture
def own(kept, monkeypatch):
    key = ClusterKey(secrets.token_bytes(32))
    reader = RowReader(LocalStore(kept.folder / "datasets"))
    monkeypatch.setattr(clusters, "_key_and_reader", lambda: (key, reader))
    return key


def order(kept, **changed):
    plain = Order("event", b"n" * 16, (kept.sealed,), ("y",), 500, cells, 0, 1500, time.time() + 60)
    return replace(plain, **changed)


def test_an_order_is_kept_until_it_is_over_and_gives_the_same_sum_each_time(kept, own):
    sealed = own.seal(order(kept), ORDER)
    first, again = (own.open(part_sum(sealed), SUM + b"n" * 16) for _ in range(2))
    assert (first == again).all()
    assert first[-1] == 1500
    with pytest.raises(ElsewhereError, match="over"):
        part_sum(own.seal(order(kept, until=time.time() - 1.0), ORDER))


def test_an_order_that_ends_meanwhile_reads_no_further(kept, own, monkeypatch):
    read, clock = [], [0.0]
    monkeypatch.setattr(clusters.time, "time", lambda: clock[0])
    real = stored_files._chunk

    def chunk(*given):
        read.append(1)
        clock[0] += 10.0
        return real(*given)

    monkeypatch.setattr(stored_files, "_chunk", chunk)
    with pytest.raises(ElsewhereError, match="over"):
        part_sum(own.seal(order(kept, stop=ROWS, until=15.0), ORDER))
    assert len(read) == 2


@pytest.mark.parametrize("what", ["another key", "another purpose", "a changed byte", "plain"])
def test_nothing_is_unpickled_that_the_job_did_not_seal(kept, own, what):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("it was unpickled",))

    sealed = own.seal(Trap(), ORDER)
    if what == "another key":
        sealed = ClusterKey(bytes(32)).seal(Trap(), ORDER)
    elif what == "another purpose":
        sealed = own.seal(Trap(), SUM)
    elif what == "a changed byte":
        sealed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    else:
        sealed = pickle.dumps(Trap())
    for call in (part_sum, joint_sum):
        with pytest.raises(ElsewhereError, match="not sealed"):
            call(sealed)


def test_a_sum_counts_as_that_of_its_own_order_alone(kept, own):
    sums = [
        part_sum(own.seal(order(kept, number=number, first=first), ORDER))
        for number, first in ((b"a" * 16, 0), (b"b" * 16, 500))
    ]
    joint = own.seal(Joint(b"c" * 16, (b"a" * 16, b"b" * 16)), ORDER)
    total = own.open(joint_sum(joint, *sums), SUM + b"c" * 16)
    assert total[-1] == 2500
    with pytest.raises(ElsewhereError, match="not sealed"):
        joint_sum(joint, *sums[::-1])
    with pytest.raises(ElsewhereError, match="not sealed"):
        joint_sum(joint, sums[0], sums[0])
    with pytest.raises(ValueError, match="shorter"):
        joint_sum(joint, sums[0])


def test_what_goes_wrong_on_a_worker_is_told_by_its_type_alone(kept, own):
    def change(table):
        raise ZeroDivisionError(f"a row has {table.columns['y'][0]}")

    with pytest.raises(ElsewhereError) as caught:
        part_sum(own.seal(order(kept, change=change), ORDER))
    assert str(caught.value) == "ZeroDivisionError"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_keys_are_not_shown_and_not_serialised(kept):
    key = ClusterKey(bytes(32))
    assert repr(key) == "<ClusterKey>"
    with pytest.raises(TypeError, match="not serialised"):
        pickle.dumps(key)
    assert repr(kept.key) not in repr(kept.sealed)


@pytest.mark.parametrize(
    ("scheduler", "key"),
    [
        ("tcp://10.0.0.1:8786", "a" * 64),
        ("tcp://cluster:8786", "a" * 64),
        ("ws://127.0.0.1:8786", "a" * 64),
        ("tls://cluster:8786", ""),
        ("tls://cluster:8786", "a" * 63),
    ],
)
def test_a_cluster_elsewhere_needs_tls_and_a_key(scheduler, key):
    with pytest.raises(ValueError, match=r"(?i)dask_(scheduler|key)"):
        Settings(dask_scheduler=scheduler, dask_key=key)
    Settings(dask_scheduler="tls://cluster:8786", dask_key="a" * 64)
    Settings(dask_scheduler="tcp://127.0.0.1:8786", dask_key="a" * 64)
