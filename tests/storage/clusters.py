"""A Dask cluster of processes on this machine, as `worker.cluster` makes one."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.settings import Settings
from app.storage.cluster import Cluster, cluster_key

ROOT = Path(__file__).resolve().parents[2]
BEGIN_SECONDS = 120.0


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Running:
    """A scheduler and workers. folder: where the store and the workers' own files lie."""

    def __init__(self, folder, *, tls=None):
        self.folder, self.key = folder, secrets.token_hex(32)
        self.address = f"{'tls' if tls else 'tcp'}://127.0.0.1:{free_port()}"
        self.env = {
            **os.environ,
            "DPMCMC_DATA_DIR": str(folder),
            "DPMCMC_DASK_SCHEDULER": self.address,
            "DPMCMC_DASK_KEY": self.key,
            "DASK_TEMPORARY_DIRECTORY": str(folder / "spilled"),
            "PYTHONPATH": str(ROOT),
            **(tls or {}),
        }
        self.processes = []

    @property
    def cluster(self):
        using = Settings(dask_scheduler=self.address, dask_key=self.key)
        return Cluster(self.address, cluster_key(using), 60.0)

    def start_scheduler(self):
        where = ["--host", self.address.rsplit(":", 1)[0], "--port", self.address.split(":")[-1]]
        self._start("distributed.cli.dask_scheduler", *where, "--no-dashboard")
        host, port = "127.0.0.1", int(self.address.split(":")[-1])
        began = time.monotonic()
        while time.monotonic() < began + BEGIN_SECONDS:
            with socket.socket() as looked:
                if not looked.connect_ex((host, port)):
                    return
            time.sleep(0.1)
        raise TimeoutError("no scheduler")

    def start_worker(self, **env):
        return self._start("worker.cluster", **env)

    def _start(self, module, *arguments, **env):
        with (self.folder / f"{module}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=self.env | env,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def wait(self, client, workers):
        client.wait_for_workers(workers, timeout=BEGIN_SECONDS)

    def logs(self):
        return {path.name: path.read_bytes() for path in self.folder.glob("*.log")}

    @staticmethod
    def kill(worker):
        """Kill the process that computes, below the one that starts it again."""
        for child in psutil.Process(worker.pid).children(recursive=True):
            child.kill()

    @staticmethod
    def pause(worker):
        for child in psutil.Process(worker.pid).children(recursive=True):
            child.suspend()

    @staticmethod
    def go_on(worker):
        for child in psutil.Process(worker.pid).children(recursive=True):
            child.resume()

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def certificates(folder, name):
    """An authority's certificate, and one that it signed with its key: files."""
    now = datetime.now(UTC)

    def made(subject, key, issuer, signer, *, authority):
        built = x509.CertificateBuilder(
            issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
            subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(hours=1),
            not_valid_after=now + timedelta(hours=1),
        ).add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        return built.sign(signer, hashes.SHA256())

    signer, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    pem = serialization.Encoding.PEM
    authority, certificate = (folder / f"{name}-{part}.pem" for part in ("ca", "own"))
    authority.write_bytes(made(name, signer, name, signer, authority=True).public_bytes(pem))
    own = made("cluster", key, name, signer, authority=False).public_bytes(pem)
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    certificate.write_bytes(own + key.private_bytes(pem, *plain))
    return authority, certificate


def tls_of(authority, certificate):
    """Dask's settings in the environment, for every side."""
    tls = "DASK_DISTRIBUTED__COMM__TLS__"
    sides = {f"{tls}{side}__CERT": str(certificate) for side in ("SCHEDULER", "WORKER", "CLIENT")}
    needed = {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
    return {f"{tls}CA_FILE": str(authority)} | sides | needed


def config_of(authority, certificate):
    """The same, of this process' clients."""
    return {
        "distributed.comm.tls.ca-file": str(authority),
        "distributed.comm.tls.client.cert": str(certificate),
        "distributed.comm.require-encryption": True,
    }


@contextmanager
def running(folder, workers, *, tls=None):
    """A cluster with so many workers, and a client that sees them."""
    from distributed import Client

    made = Running(folder, tls=tls)
    try:
        made.start_scheduler()
        started = [made.start_worker() for _ in range(workers)]
        with Client(made.address, timeout=BEGIN_SECONDS, set_as_default=False) as client:
            made.wait(client, workers)
            made.workers = started
            yield made
    finally:
        made.close()
