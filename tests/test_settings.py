"""Secrets come from files or from the environment, once, and are shown nowhere."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import SECRETS, SecretFileError, Settings, variables_of

SECRET = "postgresql://somebody:hush@database/x"  # fits every one of them


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, field in Settings.model_fields.items():
        for variable in variables_of(name, field):
            monkeypatch.delenv(variable, raising=False)
            monkeypatch.delenv(f"{variable}_FILE", raising=False)


def value_of(name: str) -> str:
    value = getattr(Settings(), name)  # type: ignore[call-arg]
    return str(value.get_secret_value() if hasattr(value, "get_secret_value") else value)


def documented(name: str) -> str:
    return variables_of(name, Settings.model_fields[name])[0]


def test_every_setting_that_hides_its_value_is_a_secret_and_the_reverse() -> None:
    hidden = {
        name
        for name, field in Settings.model_fields.items()
        if not field.repr or "Secret" in str(field.annotation)
    }
    assert hidden == set(SECRETS)


@pytest.mark.parametrize("name", SECRETS)
def test_every_secret_can_come_from_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    monkeypatch.setenv(f"{documented(name)}_FILE", str(tmp_path / "secret"))
    monkeypatch.setenv(documented(name), "")
    if name.startswith("s3"):
        other = {"s3_access_key": "s3_secret_key", "s3_secret_key": "s3_access_key"}[name]
        monkeypatch.setenv(documented(other), "x")
    assert value_of(name).endswith("somebody:hush@database/x")
    assert "hush" not in repr(Settings())  # type: ignore[call-arg]


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("fault", ["missing", "empty", "twice"])
def test_a_secret_that_cannot_be_told_stops_the_start_without_showing_it(
    name: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    if fault != "missing":
        file.write_text(SECRET if fault == "twice" else "\n")
    if fault == "twice":
        monkeypatch.setenv(documented(name), SECRET)
    monkeypatch.setenv(f"{documented(name)}_FILE", str(file))
    with pytest.raises(SecretFileError, match=f"{documented(name)}_FILE") as caught:
        Settings()  # type: ignore[call-arg]
    assert "hush" not in str(caught.value)


def test_half_of_a_key_for_the_object_store_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPMCMC_S3_SECRET_KEY", "hush")
    with pytest.raises(ValidationError, match="only one is set") as caught:
        Settings()  # type: ignore[call-arg]
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("address", ["ftp://x", "store:9000", "http://who:hush@store"])
@pytest.mark.parametrize("variable", ["DPMCMC_S3_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"])
def test_an_address_is_http_without_a_password(
    variable: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, address)
    with pytest.raises(ValidationError) as caught:
        Settings()  # type: ignore[call-arg]
    assert "hush" not in str(caught.value)
