"""A worker loads the kernels of whatever is registered, and starts."""

from dataclasses import replace
from pathlib import Path

import pytest

from dpmcmc.releases import RELEASES
from dpmcmc.samplers import SAMPLERS
from worker import warmup


@pytest.mark.parametrize(
    ("name", "family"),
    [(name, family) for name, release in RELEASES.items() for family in sorted(release.families)],
)
def test_a_release_for_one_family_alone_keeps_no_worker_from_starting(monkeypatch, name, family):
    alone = replace(RELEASES[name], families=frozenset({family}))
    monkeypatch.setattr(warmup, "RELEASES", {name: alone})
    monkeypatch.setattr(warmup, "SAMPLERS", {})
    seen = []
    ran = warmup._ran
    monkeypatch.setattr(warmup, "_ran", lambda *job: seen.append(job) or ran(*job))
    warmup.warm_up()
    assert [model.family for model, _ in seen] == [family]


def test_every_sampler_and_release_is_warmed_up(monkeypatch):
    seen = set()
    ran = warmup._ran
    monkeypatch.setattr(
        warmup, "_ran", lambda model, some: seen.add(some.algorithm) or ran(model, some)
    )
    warmup.warm_up()
    assert seen == {*SAMPLERS, *RELEASES}


def test_a_first_worker_waits_for_the_kernels_of_releases_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(warmup, "_ran", lambda _, some: seen.append(some.algorithm))
    monkeypatch.setattr(warmup, "compiled", lambda: tmp_path / "compiled")
    warmup.once(tmp_path)
    assert set(seen) == set(RELEASES)


def test_what_was_compiled_is_not_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(warmup, "compiled", lambda: tmp_path / "compiled")
    started: list[list[str]] = []
    monkeypatch.setattr(warmup.subprocess, "Popen", lambda command, **_: started.append(command))
    warmup.compile_rest(tmp_path)
    assert [command[2] for command in started] == ["worker.warmup"]
    (tmp_path / "compiled").touch()
    assert warmup.compile_rest(tmp_path) is None
    assert len(started) == 1


def test_kernels_count_as_compiled_for_one_version_and_one_processor_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import numba
    from llvmlite import binding

    ours = warmup.compiled()
    assert ours.parent == Path(numba.config.CACHE_DIR)
    monkeypatch.setattr(binding, "get_host_cpu_name", lambda: "another")
    assert warmup.compiled() != ours
