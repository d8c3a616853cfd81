"""Every setting of the service. `docs/settings.md` is this file as a table."""

import secrets
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


def _shared(name: str) -> AliasChoices:
    """A variable that other programs know too, with or without our prefix."""
    return AliasChoices(name, f"DPMCMC_{name}")


class Settings(BaseSettings):
    """Settings from the environment; unset ones give the embedded default."""

    model_config = SettingsConfigDict(env_prefix="DPMCMC_", frozen=True, extra="ignore")

    data_dir: Path = Field(Path("var"), description="folder of everything the service writes")
    database_url: str = Field(
        "",
        validation_alias=_shared("DATABASE_URL"),
        description="PostgreSQL; unset: SQLite in the data folder",
    )
    broker_url: str = Field(
        "",
        validation_alias=_shared("BROKER_URL"),
        description="redis:// or amqp://; unset: a queue in SQLite in the data folder",
    )
    admin_key: SecretStr = Field(
        SecretStr(""),
        description="the first admin's API key (32 characters or more); unset: made and printed"
        " once",
    )
    admin_key_file: Path | None = Field(None, description="file that holds the admin key")
    master_key_file: Path | None = Field(
        None,
        description="file of the key that wraps every dataset's key; unset: made in the data"
        " folder with mode 0600",
    )
    workers: int = Field(
        1, ge=0, le=64, description="worker processes that `serve` starts and watches"
    )
    worker_concurrency: int = Field(
        2, ge=1, le=256, description="jobs that one worker runs at once"
    )
    lease_seconds: float = Field(
        6.0, gt=0.5, description="silence after which a running job counts as orphaned"
    )
    reservation_seconds: int = Field(
        24 * 3600,
        ge=60,
        description="seconds after which a job that no worker ever claimed is cancelled and its"
        " reservation given back",
    )
    max_attempts: int = Field(3, ge=1, description="runs of one job when workers are lost")
    job_time_limit: int = Field(
        6 * 3600, ge=60, description="seconds after which a running job fails"
    )
    drain_seconds: float = Field(
        15.0, ge=0, description="seconds that SIGTERM leaves to running jobs"
    )
    max_upload_bytes: int = Field(2**30, ge=1024, description="largest dataset upload")
    max_body_bytes: int = Field(2**20, ge=1024, description="largest JSON body")
    max_draws: int = Field(50_000_000, ge=1, description="largest job: chains x steps x parameters")
    max_jobs_waiting: int = Field(
        1000, ge=1, description="jobs of one analyst that may wait or run at once"
    )
    log_format: Literal["json", "console"] = Field("json", description="form of the log lines")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="least level that is logged"
    )

    @field_validator("database_url")
    @classmethod
    def _with_driver(cls, url: str) -> str:
        """postgres:// and postgresql:// mean psycopg 3."""
        for scheme in ("postgres://", "postgresql://"):
            if url.startswith(scheme):
                return "postgresql+psycopg://" + url.removeprefix(scheme)
        return url

    @property
    def database(self) -> str:
        """The database's URL, the embedded default included."""
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'dpmcmc.sqlite3'}"

    @property
    def broker(self) -> str:
        """The broker's URL, the embedded default included."""
        return self.broker_url or "dpmcmcqueue://"

    @property
    def queue_file(self) -> Path:
        """The file of the embedded broker."""
        return self.data_dir.absolute() / "queue.sqlite3"

    @property
    def datasets_dir(self) -> Path:
        """Where the encrypted rows lie."""
        return self.data_dir / "datasets"

    @property
    def master_key_path(self) -> Path:
        """The file of the master key."""
        return self.master_key_file or self.data_dir / "master.key"

    def first_admin_key(self) -> str:
        """The configured key of the first admin, or the empty string."""
        if self.admin_key_file:
            return self.admin_key_file.read_text(encoding="utf-8").strip()
        return self.admin_key.get_secret_value()


@lru_cache
def settings() -> Settings:
    """The process's settings, read once."""
    return Settings()  # type: ignore[call-arg]


def table() -> str:
    """The settings as a Markdown table."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        variable = alias.choices[0] if isinstance(alias, AliasChoices) else f"DPMCMC_{name.upper()}"
        default = field.default
        plain = default.get_secret_value() if isinstance(default, SecretStr) else default
        shown = "-" if plain in ("", None) else f"`{plain}`"
        lines.append(f"| `{variable}` | {shown} | {field.description} |")
    return "\n".join(lines)


def new_key() -> str:
    """A fresh API key of 256 random bits."""
    return f"dpm_{secrets.token_urlsafe(32)}"
