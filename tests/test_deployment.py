"""The image and the composition mean what the code means: no misspelled key, no unknown setting."""

import contextlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from app import health, liveness
from app.api.metrics import Metrics
from app.local_service import free_port
from app.settings import SECRETS, Settings, variables_of
from dpmcmc.client import Client
from tests.conftest import absent
from tests.peers import QuietHandler, served
from worker.parent import die_with_parent
from worker.warmup import unpack

ROOT = Path(__file__).resolve().parent.parent
OURS = "dpmcmc:"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return content


def ours(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {n: s for n, s in compose["services"].items() if s["image"].startswith(OURS)}


def setting_names() -> set[str]:
    known = {n: variables_of(n, field)[0] for n, field in Settings.model_fields.items()}
    return {*known.values(), *(f"{known[name]}_FILE" for name in SECRETS)}


def test_composition_refers_only_to_what_it_declares(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert set(service.get("depends_on", {})) <= set(compose["services"])
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
        assert {volume.split(":")[0] for volume in service["volumes"]} <= set(compose["volumes"])


def test_composition_and_image_set_only_settings_that_exist(compose: dict[str, Any]) -> None:
    for service in ours(compose).values():
        assert set(service["environment"]) <= setting_names()
    foreign = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR"}
    assert set(image_variables()) <= setting_names() | foreign


def test_every_role_is_a_module_that_can_be_started(compose: dict[str, Any]) -> None:
    assert set(ours(compose)) == {"api", "worker", "recovery"}
    for service in ours(compose).values():
        module = service["command"][0]
        found = importlib.util.find_spec(module)
        assert found is not None
        if found.submodule_search_locations:
            assert importlib.util.find_spec(f"{module}.__main__") is not None


class Stage:
    """Where a composition is played natively: its names and places stand for ours.

    Each service gets a /tmp of its own and may write there and to its volumes, nowhere else (where
    we are root), with every capability dropped.
    """

    def __init__(self, compose: dict[str, Any], folder: Path) -> None:
        self.compose, self.folder = compose, folder
        self.ports = {name: free_port() for name in ("api", "postgres", "redis")}
        self.secrets = folder / "secrets"
        self.secrets.mkdir()
        password = secrets.token_hex(16)
        address = f"127.0.0.1:{self.ports['postgres']}"
        for name, content in {
            "postgres_password": password,
            "database_url": f"postgresql://dpmcmc:{password}@{address}/dpmcmc",
            "admin_key": secrets.token_hex(32),
            "master_key": secrets.token_hex(32),
        }.items():
            (self.secrets / name).write_text(content)

    def here(self, name: str, text: str) -> str:
        """A word of the composition as it is to be read on this stage."""
        places = {
            "/run/secrets": str(self.secrets),
            **{place: str(self.volume(name, place)) for place in self.mounts(name)},
            "/app/kernels": os.environ["NUMBA_CACHE_DIR"],
            "redis:6379": f"127.0.0.1:{self.ports['redis']}",
            ":8000": f":{self.ports['api']}",
        }
        if text == "8000":
            return str(self.ports["api"])
        if text.startswith("/tmp"):
            return str(self.own(name)) + text.removeprefix("/tmp")
        for there, ours_ in places.items():
            text = re.sub(rf"{re.escape(there)}(?![a-z0-9_])", ours_, text)
        return text

    def own(self, name: str) -> Path:
        """A service's /tmp."""
        return made(self.folder / f"{name}-tmp")

    def volume(self, name: str, place: str) -> Path:
        """The volume that a service has at a place."""
        return made(self.folder / self.mounts(name)[place])

    def mounts(self, name: str) -> dict[str, str]:
        """Place -> volume of a service."""
        return {v.split(":")[1]: v.split(":")[0] for v in self.compose["services"][name]["volumes"]}

    def environment(self, name: str) -> dict[str, str]:
        """The image's variables and the composition's, and nothing of ours that could help."""
        service = self.compose["services"][name]
        given = {**(image_variables() if name in ours(self.compose) else {})}
        given |= service.get("environment", {})
        given = {k: self.here(name, v) for k, v in given.items()}
        return given | {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.own(name)),
        }

    def command(self, name: str) -> list[str]:
        """A service's command, after the image's entry point."""
        words = [self.here(name, word) for word in self.compose["services"][name]["command"]]
        return [sys.executable, "-m", *words] if name in ours(self.compose) else words

    def healthy(self, name: str) -> bool:
        """What the service's own health check says."""
        check = self.compose["services"][name].get("healthcheck", {}).get("test")
        words = [self.here(name, word) for word in (check or image_health_check())]
        if words[0] == "CMD":
            words = words[1:]
        if name in self.ports and name != "api":
            words[1:1] = ["-p", str(self.ports[name])]
        if words[0] == "python":
            words[0] = sys.executable
        if name == "postgres":
            words += ["-h", "127.0.0.1"]
        asked = subprocess.run(
            words,
            env=self.environment(name),
            cwd=self.own(name),
            capture_output=True,
            timeout=30,
            check=False,
        )
        return asked.returncode == 0

    def confined(self, name: str, command: list[str]) -> list[str]:
        """The command under `read_only`, `tmpfs` and `cap_drop`, where we may do that."""
        if os.geteuid() or not (shutil.which("unshare") and shutil.which("setpriv")):
            return command
        writable = [self.own(name), *(self.volume(name, place) for place in self.mounts(name))]
        binds = [f"mount --bind {place} {place}" for place in map(str, writable)]
        script = " && ".join([*binds, "mount -o remount,bind,ro /"])
        rest = "exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all"
        shell = ["sh", "-c", f'{script} && {rest} -- "$@"', "sh"]
        return ["unshare", "--mount", "--propagation", "private", *shell, *command]


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def image() -> str:
    return (ROOT / "Dockerfile").read_text().replace("\\\n", " ")


def image_variables() -> dict[str, str]:
    """The variables of the image's last stage."""
    lines = image().rsplit("\nFROM ", 1)[1].splitlines()
    found = [line for line in lines if line.startswith("ENV ")]
    pairs = [pair.split("=", 1) for line in found for pair in line.split()[1:]]
    return {name: value for name, value in pairs if name not in ("PATH", "PYTHONPATH")}


def image_health_check() -> list[str]:
    found = re.search(r"^HEALTHCHECK .*CMD (\[.*\])$", image(), re.M)
    assert found is not None
    words: list[str] = json.loads(found[1])
    return words


@contextlib.contextmanager
def postgres(superuser: str, password: str, port: int) -> Iterator[dict[str, str]]:
    """A PostgreSQL of one's own. Gives the variables by which its programs find it."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if not places:
        absent("PostgreSQL's own programs")
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="dpmcmc-postgres-"))  # where that user may go
    secret = folder / "password"
    secret.write_text(password)
    if user:
        shutil.chown(folder, user)
        shutil.chown(secret, user)
    run = partial(subprocess.run, user=user, cwd="/", check=True, capture_output=True)
    data, bin_ = folder / "data", places[0]
    run([bin_ / "initdb", "-D", data, "-U", superuser, "--no-sync",
         "--auth=scram-sha-256", f"--pwfile={secret}"])  # fmt: skip
    settings = "-c listen_addresses=127.0.0.1 -c fsync=off -c unix_socket_directories="
    start = [bin_ / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", f"-p {port} {settings}"]
    run([*start, "start"])
    try:
        yield {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(port),
            "PGUSER": superuser,
            "PGPASSWORD": password,
            "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
        }
    finally:
        run([bin_ / "pg_ctl", "-D", data, "-m", "immediate", "stop"])
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def postgres_as_composed(stage: Stage) -> Iterator[None]:
    """What the image's entry point makes of its variables: a user, a database, a password."""
    given = stage.environment("postgres")
    password = Path(given["POSTGRES_PASSWORD_FILE"]).read_text()
    with postgres(given["POSTGRES_USER"], password, stage.ports["postgres"]) as found:
        created = ["createdb", given["POSTGRES_DB"]]
        subprocess.run(created, env=os.environ | found, check=True, capture_output=True)
        yield


@pytest.mark.slow
@pytest.mark.services
def test_every_service_works_as_composed(compose: dict[str, Any], tmp_path: Path) -> None:
    """Each command with its environment, secrets, volumes and health check, on this machine."""
    if shutil.which("redis-server") is None:
        absent("redis-server")
    stage = Stage(compose, tmp_path)
    assert set(compose["services"]) == {"api", "worker", "recovery", "postgres", "redis"}
    with postgres_as_composed(stage), contextlib.ExitStack() as running:
        assert stage.healthy("postgres")
        start(stage, "redis", running)
        start(stage, "api", running)
        start(stage, "recovery", running)
        url = f"http://127.0.0.1:{stage.ports['api']}"
        analyst, job = first_job(url, (stage.secrets / "admin_key").read_text(), tmp_path)
        with redis.Redis(port=stage.ports["redis"]) as broker:
            broker.flushall()  # only the recovery process knows of the job now
        start(stage, "worker", running)
        with Client(url, analyst) as client:
            answer = client.wait(job, timeout=120)
    assert answer["status"] == "succeeded", (tmp_path / "worker.log").read_text()[-2000:]
    said = "".join((tmp_path / f"{name}.log").read_text() for name in ours(compose))
    assert not [path for path in stage.secrets.iterdir() if path.read_text() in said]
    assert os.listdir(stage.volume("api", "/data") / "datasets")


GUIDE = ROOT / "docs/guides/one_machine.md"
UNITS = ROOT / "deploy/systemd"


class Machine:
    """A virtual machine as the guide makes one, below a folder of this one.

    Its commands run as they stand, but for places, ports, and what only an init system or a package
    manager could do: `did` has those.
    """

    def __init__(self, folder: Path, database: dict[str, str], ports: dict[str, int]) -> None:
        self.folder, self.ports = folder, ports
        self.calls = folder / "calls"
        programs = made(folder / "bin")
        for name in ("apt-get", "useradd", "systemctl", "chown"):
            self._program(programs / name, f'echo {name} "$@" >> {self.calls}')
        self._program(programs / "runuser", 'shift 3; exec "$@"')
        self._program(programs / "install", 'for place; do :; done; mkdir -p "$place"')
        self.environment = {**os.environ, **database, "PGDATABASE": "postgres"}
        self.environment["PATH"] = f"{programs}{os.pathsep}{database['PATH']}"
        for place in ("etc", "lib", "cache", "units", "opt"):
            made(folder / place)

    @staticmethod
    def _program(path: Path, script: str) -> None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def here(self, text: str) -> str:
        """Text of the guide or of a unit as it is to be read on this machine."""
        places = {
            "python3 -m venv /opt/dpmcmc/.venv": "true",
            "/opt/dpmcmc/.venv/bin/pip": "true",
            "/opt/dpmcmc/.venv/bin/python": sys.executable,
            ".venv/bin/python": sys.executable,
            "/opt/dpmcmc": str(self.folder / "opt"),
            "/etc/dpmcmc": str(self.folder / "etc"),
            "/var/lib/dpmcmc": str(self.folder / "lib"),
            "/var/cache/dpmcmc": os.environ["NUMBA_CACHE_DIR"],
            "/etc/systemd/system": str(self.folder / "units"),
            "redis-cli": f"redis-cli -p {self.ports['redis']}",
            "127.0.0.1:5432": f"127.0.0.1:{self.ports['postgres']}",
            "127.0.0.1:6379": f"127.0.0.1:{self.ports['redis']}",
            "127.0.0.1:8000": f"127.0.0.1:{self.ports['api']}",
            "--port 8000": f"--port {self.ports['api']}",
        }
        return re.sub("|".join(map(re.escape, places)), lambda at: places[at[0]], text)

    def paste(self, block: str) -> str:
        """Run a block of the guide. Returns what it printed."""
        command = ["bash", "-euo", "pipefail", "-c", self.here(block)]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        return done.stdout

    def enabled(self) -> list[str]:
        """The units that were enabled, in their order."""
        lines = self.calls.read_text().splitlines()
        (line,) = [line for line in lines if line.startswith("systemctl enable --now")]
        return line.split()[3:]

    def unit(self, name: str) -> tuple[list[str], dict[str, str]]:
        """Command and environment of an installed unit."""
        stem, _, instance = name.partition("@")
        file = self.folder / "units" / f"{stem}{'@' if instance else ''}.service"
        lines = [line.partition("=") for line in self.here(file.read_text()).splitlines()]
        given = {key: value for key, _, value in lines if key}
        written = Path(given["EnvironmentFile"]).read_text().split()
        pairs = [pair.split("=", 1) for pair in (*written, *given["Environment"].split())]
        environment = dict(pairs)
        base = {"PATH": os.environ["PATH"], "PYTHONPATH": given["WorkingDirectory"]}
        return given["ExecStart"].split(), base | environment


@pytest.mark.slow
@pytest.mark.services
@pytest.mark.timeout(900)
def test_one_machine_is_installed_by_pasted_commands(tmp_path: Path) -> None:
    """Every block of the guide, then a job through the units that it installs."""
    if shutil.which("redis-server") is None:
        absent("redis-server")
    blocks = re.findall(r"^```bash\n(.*?)^```", GUIDE.read_text(), re.M | re.S)
    *before, first_use, back_up, restore, upgrade = blocks
    ports = {name: free_port() for name in ("api", "postgres", "redis")}
    password = secrets.token_hex(16)
    config = tmp_path / "redis.conf"
    config.write_text(f"port {ports['redis']}\ndir {tmp_path}\n")
    broker = started(["redis-server", str(config)], dict(os.environ), tmp_path / "redis.log")
    with postgres("postgres", password, ports["postgres"]) as database, broker:
        machine = Machine(tmp_path, database, ports)
        listens = partial(subprocess.run, ["redis-cli", "-p", str(ports["redis"]), "ping"])
        assert within(30, lambda: listens(capture_output=True).returncode == 0)
        for block in before:
            machine.paste(block)
        assert "appendonly yes" in config.read_text()
        assert machine.enabled() == ["dpmcmc-api", "dpmcmc-recovery", "dpmcmc-worker@1"]
        with contextlib.ExitStack() as running:
            for name in machine.enabled():
                command, environment = machine.unit(name)
                running.enter_context(started(command, environment, tmp_path / f"{name}.log"))
            url, key = f"http://127.0.0.1:{ports['api']}", (tmp_path / "etc/admin_key").read_text()
            ready = [sys.executable, "-m", "app.health", f"{url}/readyz"]
            log = tmp_path / "dpmcmc-api.log"
            assert within(120, lambda: subprocess.run(ready).returncode == 0), log.read_text()
            assert "Datasets" in machine.paste(first_use)
            analyst, job = first_job(url, key.strip(), tmp_path)
            with Client(url, analyst) as client:
                answer = client.wait(job, timeout=600)  # its worker compiles, beside other tests
                found = str(client.summary(job))
            machine.paste(back_up)
        (rows,) = (tmp_path / "lib" / "datasets").glob("*.rows")
        kept = rows.read_bytes()
        rows.unlink()
        machine.paste('psql "$(cat /etc/dpmcmc/database_url)" -c "DELETE FROM chain_blocks"')
        machine.paste(restore)
        assert rows.read_bytes() == kept
        command, environment = machine.unit("dpmcmc-api")
        with started(command, environment, tmp_path / "again.log"):
            alone = [*ready[:-1], f"{ready[-1]}?workers=false"]
            assert within(120, lambda: subprocess.run(alone).returncode == 0)
            with Client(url, analyst) as client:
                assert str(client.summary(job)) == found
        machine.paste(upgrade)
    assert answer["status"] == "succeeded", (tmp_path / "dpmcmc-worker@1.log").read_text()[-2000:]
    assert {file.name for file in UNITS.iterdir()} == {
        file.name for file in (tmp_path / "units").iterdir()
    }


def test_units_set_only_settings_that_exist_and_may_write_their_own_places_alone() -> None:
    settings = re.findall(r"^([A-Z_]+)=", GUIDE.read_text(), re.M)
    assert set(settings) <= setting_names()
    for file in UNITS.iterdir():
        lines = file.read_text().splitlines()
        assert "User=dpmcmc" in lines
        assert {"ProtectSystem=strict", "NoNewPrivileges=yes", "CapabilityBoundingSet="} <= set(
            lines
        )
        assert not [line for line in lines if line.startswith("ReadWritePaths")]


def start(stage: Stage, name: str, running: contextlib.ExitStack) -> None:
    """Run a service as composed until its own health check is content."""
    command, log = stage.command(name), stage.folder / f"{name}.log"
    if name == "redis":
        folder = stage.volume("redis", "/data")
        command += ["--port", str(stage.ports["redis"]), "--dir", str(folder)]
    assert not stage.healthy(name)
    running.enter_context(started(stage.confined(name, command), stage.environment(name), log))
    assert within(60, lambda: stage.healthy(name)), log.read_text()[-2000:]


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.2)
    return False


@contextlib.contextmanager
def started(command: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=log.parent,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, signal.SIGTERM),
        )
        try:
            yield
            process.terminate()
            assert process.wait(60) == 0, log.read_text()[-2000:]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_process_that_stopped_working_is_unhealthy(tmp_path: Path) -> None:
    file = tmp_path / "liveness"
    assert not liveness.alive(file)
    liveness.beat(file)
    assert liveness.alive(file)
    long_ago = time.time() - liveness.STALE_SECONDS - 1
    os.utime(file, (long_ago, long_ago))
    assert not liveness.alive(file)


def test_kernels_of_the_image_are_put_where_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(made(tmp_path / "image") / "kernels").joinpath("k.nbi").write_bytes(b"k")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    unpack(None)
    unpack(tmp_path / "nowhere")
    assert not (tmp_path / "cache").exists()
    for _ in range(2):
        unpack(tmp_path / "image")
    assert (tmp_path / "cache" / "kernels" / "k.nbi").read_bytes() == b"k"


def first_job(url: str, key: str, folder: Path) -> tuple[str, str]:
    """Upload a small table and submit a job on it. Returns the analyst's key and the job."""
    rows = folder / "rows.csv"
    rows.write_text("y,x\n" + "no,0\nyes,1\nno,1\nyes,0\n" * 50)
    metadata = {
        "name": "small",
        "privacy": {"neighbouring": "replace_one", "epsilon": 6.0, "delta": 1e-6},
        "columns": [
            {"name": "y", "type": "binary", "categories": ["no", "yes"]},
            {"name": "x", "type": "number", "lower": 0, "upper": 1},
        ],
    }
    job = {
        "model": {"family": "logistic", "formula": "y ~ x"},
        "sampler": {"algorithm": "dp_penalty", "num_steps": 20, "num_chains": 1},
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
        "accept_low_quality": True,
    }
    with Client(url, key) as admin:
        job["dataset"] = admin.upload(rows, metadata)["id"]
        analyst = admin.create_user("analyst", "analyst")["key"]
    with Client(url, analyst) as client:
        return analyst, client.submit(job)["id"]


def test_every_metric_is_listed_for_operators() -> None:
    listed = re.findall(
        r"^\| `(dpmcmc_\w+)` \|", (ROOT / "docs/guides/operation.md").read_text(), re.M
    )
    found = {family.name for family in Metrics().registry.collect()}
    assert {name.removesuffix("_total") for name in listed} == found


def test_every_role_of_ours_is_locked_down(compose: dict[str, Any]) -> None:
    for service in ours(compose).values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert service["tmpfs"] == ["/tmp"]


def test_a_role_is_given_longer_to_end_than_it_takes_to_drain(compose: dict[str, Any]) -> None:
    for service in ours(compose).values():
        given = float(service["stop_grace_period"].removesuffix("s"))
        assert given > Settings.model_fields["drain_seconds"].default


def test_only_the_api_is_reached_from_outside_and_from_this_host_alone(
    compose: dict[str, Any],
) -> None:
    open_ports = {n: s["ports"] for n, s in compose["services"].items() if "ports" in s}
    assert open_ports == {"api": ["127.0.0.1:8000:8000"]}


def test_no_secret_is_written_down_in_the_composition(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            assert "@" not in value
            if re.search("PASSWORD|KEY|URL_FILE", name):
                assert re.fullmatch(r"/run/secrets/[a-z_]+", value)
                assert value.rsplit("/", 1)[1] in service["secrets"]


def test_image_runs_without_root_and_copies_what_exists() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert re.fullmatch(r"USER \d+", [line for line in lines if line.startswith("USER")][-1])
    copied = [line.split()[1:-1] for line in lines if re.match(r"COPY (?!--from)", line)]
    assert all((ROOT / name).exists() for names in copied for name in names)


def test_image_gets_every_package_that_is_shipped() -> None:
    allowed = (ROOT / ".dockerignore").read_text()
    for folder in ("dpmcmc", "app", "worker", "migrations"):
        assert f"!{folder}\n" in allowed


def test_every_service_has_limits_and_every_foreign_image_a_digest(compose: dict[str, Any]) -> None:
    """A process that grows or forks without end takes its container down, not its neighbours."""
    pinned = re.compile(r".+:.+@sha256:[0-9a-f]{64}")
    for name, service in compose["services"].items():
        assert re.fullmatch(r"\d+[mg]", service["mem_limit"]), name
        assert 0 < service["pids_limit"] <= 1024, name
        assert name in ours(compose) or pinned.fullmatch(service["image"]), name
    bases = re.findall(r"^FROM (\S+)", image(), re.M)
    assert len(bases) == 2
    assert all(pinned.fullmatch(base) for base in bases)
    assert len(set(bases)) == 1


def test_a_worker_has_the_memory_that_its_jobs_may_take(compose: dict[str, Any]) -> None:
    fields = Settings.model_fields
    jobs = fields["worker_concurrency"].default * fields["job_memory_bytes"].default
    given = int(compose["services"]["worker"]["mem_limit"].removesuffix("g")) * 2**30
    assert given > jobs


def test_migrations_can_be_run_by_hand_in_the_image() -> None:
    assert re.search(r"^COPY alembic.ini", image(), re.M)
    assert "!alembic.ini\n" in (ROOT / ".dockerignore").read_text()
    assert (ROOT / "alembic.ini").is_file()


def test_the_images_health_check_is_right_for_every_role(tmp_path: Path) -> None:
    """A worker listens nowhere: its file counts. Where an API listens, its answer counts."""

    class Api(QuietHandler):
        status = 200

        def do_GET(self) -> None:
            self.send_response(self.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    file, port = tmp_path / "liveness", free_port()
    url = f"http://127.0.0.1:{port}/readyz"
    assert not health.healthy(url, None)
    assert not health.healthy(url, file)
    liveness.beat(file)
    assert health.healthy(url, file)
    with served(Api, port):
        assert health.healthy(url, None)
        Api.status = 503
        assert not health.healthy(url, file)  # whatever its worker's file says
    assert image_health_check()[:3] == ["python", "-m", "app.health"]
