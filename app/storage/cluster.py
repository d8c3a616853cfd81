"""Sums over rows on a Dask cluster, whose workers read the encrypted files themselves.

A job's process seals an order for each sum: the files with their keys, which rows, what is computed
of them, and until when. A worker holds the cluster's key and opens orders with it; it holds no
master key. What it adds up goes back sealed too. So the scheduler, the wires and the disks of the
cluster have ciphertext alone. Sums are whole numbers: they have the same bits wherever and however
often they are made. What is not made there in time the job's own process makes itself.
docs/adr/0015-sums-on-a-cluster.md says what an attacker can do.
"""

import secrets
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app import logs
from app.settings import Settings, settings
from app.storage.files import RowReader, SealedFile, Spread, at_once
from app.storage.keys import NONCE_BYTES
from app.storage.stores import store_of
from dpmcmc.inputs.blocks import Floats, added
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.streamed import Elsewhere, Names, in_blocks
from dpmcmc.kernels.subnormals import flushed

PART_ROWS = 2**18  # rows that one task adds up
BRANCHES = 8  # sums that one task adds, before they go to the job's process
AHEAD = 8  # of these that are asked for at once
CONNECT_SECONDS, LOOK_SECONDS = 5.0, 0.5
ORDER, SUM = b"order", b"sum"


class ElsewhereError(RuntimeError):
    """A sum failed on the cluster. It tells a type of failure, and nothing of a row."""


class ClusterKey:
    """A secret of 256 bits shared by a job's process and the workers of its cluster."""

    __slots__ = ("__cipher",)

    def __init__(self, secret: bytes) -> None:
        self.__cipher = AESGCM(secret)

    def seal(self, what: object, purpose: bytes) -> bytes:
        """Return the object encrypted by AES-256-GCM, bound to a purpose."""
        import cloudpickle  # functions of functions, which pickle alone refuses

        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self.__cipher.encrypt(nonce, cloudpickle.dumps(what), purpose)

    def open(self, sealed: bytes, purpose: bytes) -> Any:
        """Return the object sealed for this purpose, else raise ElsewhereError."""
        import cloudpickle

        nonce, hidden = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            plain = self.__cipher.decrypt(nonce, hidden, purpose)
        except InvalidTag:
            raise ElsewhereError("not sealed by this cluster's key for this purpose") from None
        return cloudpickle.loads(plain)

    def __repr__(self) -> str:
        return "<ClusterKey>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a cluster's key is not serialised")


@dataclass(frozen=True, slots=True)
class Order:
    """Permission for a worker to add up these rows once, for one paid event, until a deadline.

    event: digest of the event that was paid for. number: random, the sum is sealed under it.
    names, size, change: see Streamed.summed. first, stop: rows. until: Unix time.
    """

    event: str
    number: bytes
    files: tuple[SealedFile, ...] = field(repr=False)
    names: tuple[str, ...]
    size: int
    change: Callable[[Table], Floats]
    first: int
    stop: int
    until: float

    def check(self) -> None:
        """Raise ElsewhereError after the deadline."""
        if time.time() > self.until:
            raise ElsewhereError("the order is over")

    def tables(self, reader: RowReader) -> Iterator[Table]:
        """Yield the rows, until the deadline."""
        for table in reader.tables(self.files, at_once, self.names, self.first, self.stop):
            self.check()
            yield table


@dataclass(frozen=True, slots=True)
class Joint:
    """Permission to add sums. number: identifies the result. numbers: identify the sums."""

    number: bytes
    numbers: tuple[bytes, ...]


def part_sum(sealed: bytes) -> bytes:
    """Add up the rows of a sealed order on a worker; return the sealed sum.

    Raises ElsewhereError, whatever goes wrong: no message of another error leaves the worker.
    """
    try:
        key, reader = _key_and_reader()
        order: Order = key.open(sealed, ORDER)
        order.check()
        with flushed(), np.errstate(all="ignore"):
            blocks = in_blocks(order.tables(reader), order.size)
            total = added(map(order.change, blocks))
        return key.seal(total, SUM + order.number)
    except ElsewhereError:
        raise
    except Exception as error:
        raise ElsewhereError(type(error).__name__) from None


def joint_sum(sealed: bytes, *sums: bytes) -> bytes:
    """Add sealed sums on a worker; return the sealed sum. Raises ElsewhereError."""
    key, _ = _key_and_reader()
    joint: Joint = key.open(sealed, ORDER)
    pairs = zip(joint.numbers, sums, strict=True)
    total = added(key.open(each, SUM + number) for number, each in pairs)
    return key.seal(total, SUM + joint.number)


@lru_cache
def _key_and_reader() -> tuple[ClusterKey, RowReader]:
    """Return the key and the row reader of this worker."""
    return cluster_key(settings()), RowReader(store_of(settings()))


def cluster_key(using: Settings) -> ClusterKey:
    """Return the configured cluster key."""
    return ClusterKey(bytes.fromhex(using.dask_key.get_secret_value()))


def cluster_of(using: Settings) -> "Cluster | None":
    """Return the configured cluster; None where there is none."""
    if not using.dask_scheduler:
        return None
    return Cluster(using.dask_scheduler, cluster_key(using), 10.0 * using.lease_seconds)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that computes sums. patience: seconds until an order's deadline."""

    address: str
    key: ClusterKey
    patience: float

    def spread(self, event: str) -> Spread:
        """Return a function that sums rows there, for one paid event. event: its digest."""

        def elsewhere(
            files: Sequence[SealedFile], read: Callable[[Names, int, int], Iterator[Table]]
        ) -> Elsewhere:
            """Return the summing function for these files."""
            return _Sums(self, event, tuple(files), read).summed

        return elsewhere


@dataclass(frozen=True, slots=True)
class _Asked:
    """A requested sum. future: of Dask; None where the cluster was unavailable."""

    first: int
    stop: int
    until: float
    number: bytes
    future: Any


class _Sums:
    """The passes of one job over its rows."""

    def __init__(
        self,
        cluster: Cluster,
        event: str,
        files: tuple[SealedFile, ...],
        read: Callable[[Names, int, int], Iterator[Table]],
    ) -> None:
        self._cluster, self._event, self._files, self._read = cluster, event, files, read
        self._rows = sum(file.schema.rows for file in files)
        self._client: Any = None
        self._lost = False  # for the rest of the job

    def summed(self, names: Names, size: int, change: Callable[[Table], Floats]) -> Floats:
        """Return the sum over all blocks, see Streamed.summed."""
        total, waiting = np.zeros(()), deque[_Asked]()
        step = max(PART_ROWS // size, 1) * size  # blocks begin where they do in one process
        try:
            for first in range(0, self._rows, step * BRANCHES):
                stop = min(first + step * BRANCHES, self._rows)
                waiting.append(self._requested(names, size, change, first, stop, step))
                if len(waiting) > AHEAD:
                    total = total + self._awaited(waiting.popleft(), names, size, change)
            while waiting:
                total = total + self._awaited(waiting.popleft(), names, size, change)
        finally:
            for request in waiting:
                _dropped(request.future)
        return total

    def _requested(
        self,
        names: Names,
        size: int,
        change: Callable[[Table], Floats],
        first: int,
        stop: int,
        step: int,
    ) -> _Asked:
        """Request a sum of rows from the cluster, as a tree of partial sums."""
        until, key = time.time() + self._cluster.patience, self._cluster.key
        number, numbers, future = secrets.token_bytes(16), list[bytes](), None
        client = self._connected()
        if client is not None:
            parts = []
            try:
                for low in range(first, stop, step):
                    numbers.append(secrets.token_bytes(16))
                    rows = low, min(low + step, stop)
                    about = self._event, numbers[-1], self._files, tuple(names), size, change
                    sealed = key.seal(Order(*about, *rows, until), ORDER)
                    parts.append(client.submit(part_sum, sealed, pure=False))
                joint = key.seal(Joint(number, tuple(numbers)), ORDER)
                future = client.submit(joint_sum, joint, *parts, pure=False)
            except Exception as error:  # Dask has errors of many kinds
                self._give_up(error)
        return _Asked(first, stop, until, number, future)

    def _awaited(
        self, request: _Asked, names: Names, size: int, change: Callable[[Table], Floats]
    ) -> Floats:
        """Return a requested sum; compute it locally if it does not arrive in time."""
        total = self._received(request)
        if total is not None:
            return total
        return added(map(change, in_blocks(self._read(names, request.first, request.stop), size)))

    def _received(self, request: _Asked) -> Floats | None:
        """Return the cluster's sum, or None."""
        future = request.future
        if future is None or self._lost:
            return None
        try:
            while not future.done():
                if time.time() > request.until or self._client.status != "running":
                    raise ElsewhereError("no answer came in time")
                time.sleep(LOOK_SECONDS / 100)
            sealed = future.result(timeout=LOOK_SECONDS)
            total: Floats = self._cluster.key.open(sealed, SUM + request.number)
            return total
        except Exception as error:
            if future.status == "error" and self._client.status == "running":
                logs.logger().warning("cluster_task_failed", exception=type(error).__name__)
            else:
                self._give_up(error)
            return None
        finally:
            _dropped(future)

    def _connected(self) -> Any:
        """Return a client of the cluster; None where it is unavailable or has no workers."""
        if self._client is None and not self._lost:
            from distributed import Client

            try:
                make: Any = Client
                client = make(self._cluster.address, timeout=CONNECT_SECONDS, set_as_default=False)
                weakref.finalize(self, _closed, client)
                self._client = client
                if not client.nthreads():
                    raise ElsewhereError("the cluster has no workers")
            except Exception as error:
                self._give_up(error)
        return None if self._lost else self._client

    def _give_up(self, error: Exception) -> None:
        """Compute the job's remaining sums locally."""
        self._lost = True
        logs.logger().warning("cluster_lost", exception=type(error).__name__)


def _dropped(future: Any) -> None:
    """Cancel a request on the cluster."""
    if future is not None and future.client.status == "running":
        if not future.done():
            future.cancel()
        future.release()


def _closed(client: Any) -> None:
    """Close the client, ignoring errors."""
    with suppress(Exception):
        client.close(CONNECT_SECONDS)
