"""The settings of the service. `docs/settings.md` lists them as a table."""

import os
import re
import secrets
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AliasChoices,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX = "DPMCMC_"
LEAST_KEY = 32  # characters of the first admin's key
LEAST_LETTERS = 8  # different ones: 64 random hexadecimal digits have fewer once in 10^20
SECRETS = (
    "database_url",
    "broker_url",
    "admin_key",
    "metrics_key",
    "anchor_webhook",
    "notice_webhook",
    "smtp_password",
    "oidc_client_secret",
    "s3_access_key",
    "s3_secret_key",
    "otlp_headers",
    "dask_key",
)


def _shared(name: str) -> AliasChoices:
    """Return aliases of a variable that other programs use too: with and without our prefix."""
    return AliasChoices(name, f"{PREFIX}{name}")


class SecretFileError(ValueError):
    """A secret's file is empty or unreadable, or the secret is given twice."""


class _SecretFiles(PydanticBaseSettingsSource):
    """A settings source that reads secrets from files named by `<variable>_FILE`."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the secret of one setting, or None."""
        for variable in variables_of(field_name, field):
            path = os.environ.get(f"{variable}_FILE")
            if path:
                return self._read(variable, Path(path)), variables_of(field_name, field)[0], False
        return None, field_name, False

    def _read(self, variable: str, path: Path) -> str:
        """Return the secret in a file. Raises SecretFileError."""
        if os.environ.get(variable):
            raise SecretFileError(f"{variable} and {variable}_FILE are both set")
        try:
            secret = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            raise SecretFileError(f"the file of {variable}_FILE cannot be read") from None
        if not secret:
            raise SecretFileError(f"the file of {variable}_FILE is empty")
        return secret

    def __call__(self) -> dict[str, Any]:
        """Return all secrets in files, as the environment would give them."""
        secrets = {}
        for name in SECRETS:
            field = self.settings_cls.model_fields[name]
            value, variable, _ = self.get_field_value(field, name)
            if value is not None:
                secrets[variable if field.validation_alias else name] = value
        return secrets


class Settings(BaseSettings):
    """Settings from the environment; defaults run the embedded service."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True
    )

    data_dir: Path = Field(Path("var"), description="folder of everything the service writes")
    database_url: str = Field(
        "",
        validation_alias=_shared("DATABASE_URL"),
        repr=False,
        description="PostgreSQL; unset: SQLite in the data folder",
    )
    broker_url: str = Field(
        "",
        validation_alias=_shared("BROKER_URL"),
        repr=False,
        description="redis:// or amqp://; unset: a queue in SQLite in the data folder",
    )
    admin_key: SecretStr = Field(
        SecretStr(""),
        description="the first admin's API key (32 characters or more); unset: made and printed"
        " once",
    )
    metrics_key: SecretStr = Field(
        SecretStr(""),
        description="a key that reads `/metrics` and nothing else (32 characters or more); unset:"
        " admins and auditors read them",
    )
    master_key_file: Path | None = Field(
        None,
        description="file of the key that wraps every dataset's key; unset: made in the data"
        " folder with mode 0600",
    )
    anchor_file: Path | None = Field(
        None,
        description="file that ends of ledgers are appended to, signed, and held against at start;"
        " unset: anchors.jsonl in the data folder. Never put it back with the database",
    )
    anchor_webhook: str = Field(
        "",
        repr=False,
        description="http(s):// address that is sent the same lines, to be kept by somebody else;"
        " unset: none",
    )
    public_url: str = Field(
        "",
        pattern=r"^(https?://[^@]+)?$",
        description="http(s):// address at which people reach the dashboard, for links in messages"
        " and for an identity provider to lead back to; unset: messages have none",
    )
    notice_webhook: str = Field(
        "",
        repr=False,
        description="http(s):// address that is told of access requests and of answers to them;"
        " unset: none",
    )
    smtp_host: str = Field(
        "",
        description="mail server that tells admins of access requests and analysts of answers, each"
        " at the address that he or she gave; unset: no mail",
    )
    smtp_port: int = Field(587, ge=1, le=65_535, description="port of the mail server")
    smtp_security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="how the connection to the mail server is encrypted"
    )
    smtp_user: str = Field("", description="name at the mail server; unset: it asks for none")
    smtp_password: SecretStr = Field(SecretStr(""), description="password at the mail server")
    smtp_from: str = Field("", description="address that mails come from, needed with a server")
    s3_bucket: str = Field(
        "",
        description="bucket of the encrypted rows in an object store; unset: the data folder",
    )
    s3_endpoint: str = Field(
        "",
        pattern=r"^(https?://[^@]+)?$",
        description="http(s):// address of the object store; unset: that of AWS",
    )
    s3_region: str = Field("", description="region of the bucket; unset: the AWS client's default")
    s3_prefix: str = Field("", description="folder in the bucket, for ours alone")
    s3_access_key: SecretStr = Field(
        SecretStr(""),
        description="id of the object store's key; unset: what the AWS client finds, such as the"
        " machine's role",
    )
    s3_secret_key: SecretStr = Field(SecretStr(""), description="the object store's key")
    sources: Path | None = Field(
        None,
        description="TOML file of the databases and folders that admins may take snapshots of;"
        " unset: none",
    )
    otlp_endpoint: str = Field(
        "",
        validation_alias=_shared("OTEL_EXPORTER_OTLP_ENDPOINT"),
        pattern=r"^(https?://[^@]+)?$",
        description="http(s):// address to which traces are sent (OpenTelemetry); unset: none",
    )
    otlp_headers: SecretStr = Field(
        SecretStr(""),
        validation_alias=_shared("OTEL_EXPORTER_OTLP_HEADERS"),
        description="name=value pairs, separated by commas, that the collector asks for",
    )
    oidc_issuer: str = Field(
        "",
        pattern=r"^(https?://[^@]+)?$",
        description="issuer of an OpenID Connect provider whose tokens let people in beside keys;"
        " unset: keys only",
    )
    oidc_audience: str = Field(
        "", description="audience that a token must name: this service's id at the provider"
    )
    oidc_jwks_url: str = Field(
        "",
        pattern=r"^(https?://[^@]+)?$",
        description="http(s):// address of the provider's keys; unset: as its discovery document"
        " says",
    )
    oidc_role_claim: str = Field(
        "roles", min_length=1, description="claim that holds a user's role; dots lead inwards"
    )
    oidc_roles: dict[str, Literal["admin", "analyst", "auditor"]] = Field(
        {},
        description="JSON: what a value of that claim stands for; the first one that a token has"
        " counts",
    )
    oidc_skew_seconds: float = Field(
        60.0, ge=0, le=600, description="seconds by which the provider's clock may differ"
    )
    oidc_client_id: str = Field(
        "",
        description="the dashboard's client id at the provider; needs DPMCMC_PUBLIC_URL; unset: the"
        " dashboard signs in with keys only",
    )
    oidc_client_secret: SecretStr = Field(
        SecretStr(""), description="its secret; unset: it is a public client"
    )
    oidc_device_client_id: str = Field(
        "",
        description="the command line's client id at the provider, of a public client with the"
        " device flow; unset: the command line signs in with keys only",
    )
    oidc_scopes: str = Field(
        "openid",
        pattern=r"^(?:[!#-\[\]-~]+ )*openid(?: [!#-\[\]-~]+)*$",
        description="scopes that both ask for, separated by spaces; openid is one of them",
    )
    oidc_name: str = Field(
        "",
        max_length=60,
        description="what people call the provider; unset: the host of its address",
    )
    recovery: bool = Field(
        True, description="whether `serve` runs a recovery process; more than one do no harm"
    )
    liveness_file: Path | None = Field(
        None, description="file that a worker or recovery touches while it works, for health checks"
    )
    kernels_dir: Path | None = Field(
        None,
        description="folder of compiled kernels that a worker copies to `NUMBA_CACHE_DIR`; the"
        " image brings one",
    )
    workers: int = Field(
        1, ge=0, le=64, description="worker processes that `serve` starts and watches"
    )
    worker_concurrency: int = Field(
        2, ge=1, le=256, description="jobs that one worker runs at once"
    )
    dask_scheduler: str = Field(
        "",
        pattern=r"^((tls|tcp)://[^@/]+:[0-9]+)?$",
        description="scheduler of a Dask cluster that adds up the rows of large datasets, as"
        " tls://host:8786; tcp:// for this machine alone; unset: each job does so itself",
    )
    dask_key: SecretStr = Field(
        SecretStr(""),
        description="64 hex digits (256 bits) that jobs and the workers of the cluster share;"
        " the scheduler does not have them",
    )
    planners: int = Field(2, ge=1, le=64, description="processes that work out plans and prices")
    plan_seconds: float = Field(
        10.0, gt=0.1, description="seconds after which a plan or price is given up and refused"
    )
    lease_seconds: float = Field(
        6.0, gt=0.5, description="silence after which a running job counts as orphaned"
    )
    reservation_seconds: int = Field(
        24 * 3600,
        ge=60,
        description="seconds after which a job that no worker took is cancelled; what was reserved"
        " for it is given back",
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
    job_memory_bytes: int = Field(
        8 * 2**30,
        ge=2**29,
        description="memory that one running job may take; larger ones are refused. A worker needs"
        " it DPMCMC_WORKER_CONCURRENCY times",
    )
    max_draws: int = Field(50_000_000, ge=1, description="largest job: chains x steps x parameters")
    chain_days: int = Field(
        0, ge=0, description="days that draws are kept after a job has ended; 0: for ever"
    )
    max_cancelled: int = Field(
        200,
        ge=1,
        description="jobs that one user may submit and cancel within an hour before they run: each"
        " leaves entries in ledgers that nothing deletes",
    )
    max_jobs_waiting: int = Field(
        1000, ge=1, description="jobs of one analyst that may wait or run at once"
    )
    max_jobs_running: int = Field(
        0,
        ge=0,
        description="jobs of one analyst that may run at once, so that others find a free place;"
        " 0: all places of DPMCMC_WORKERS x DPMCMC_WORKER_CONCURRENCY but one",
    )
    rate_requests: int = Field(
        600,
        ge=10,
        description="requests that one user may make in 10 seconds, with all keys together; counted"
        " in Redis where that is the broker, else by each process",
    )
    max_streams_of_user: int = Field(
        32, ge=1, description="event streams that one user may have open at once in one process"
    )
    max_streams: int = Field(
        1024, ge=1, le=10_000, description="event streams that may be open at once in one process"
    )
    request_seconds: float = Field(
        10.0,
        ge=0.5,
        description="seconds that a request's headers may take, and its body besides one for each"
        " KiB",
    )
    send_seconds: float = Field(
        30.0,
        ge=0.5,
        description="seconds in which a client must take 64 KiB of an answer, or its connection is"
        " cut",
    )
    max_downloads_of_user: int = Field(
        4,
        ge=1,
        description="chains, tables, results and free posteriors that one user may fetch at once"
        " from one process",
    )
    max_downloads: int = Field(
        32, ge=1, description="the same of all users together; each may take some MiB of memory"
    )
    max_result_bytes: int = Field(
        2**25,
        ge=2**20,
        description="largest answer of a task, as JSON; tasks that release more are refused",
    )
    max_plans_waiting: int = Field(
        128, ge=1, description="plans, prices and free posteriors of one user that may wait at once"
    )
    max_keys_of_user: int = Field(
        50, ge=1, description="keys of one user that may work at once; revoke some for more"
    )
    log_format: Literal["json", "console"] = Field("json", description="form of the log lines")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="least level that is logged"
    )

    @field_validator("database_url")
    @classmethod
    def _with_driver(cls, url: str) -> str:
        """Return the URL with the psycopg 3 driver for PostgreSQL."""
        for scheme in ("postgres://", "postgresql://"):
            if url.startswith(scheme):
                return "postgresql+psycopg://" + url.removeprefix(scheme)
        return url

    @field_validator("admin_key", "metrics_key")
    @classmethod
    def _unguessable(cls, key: SecretStr, info: ValidationInfo) -> SecretStr:
        """Refuse a guessable key; strip a trailing line break."""
        value = key.get_secret_value().strip()
        variable = f"{PREFIX}{str(info.field_name).upper()}"
        if value and len(value) < LEAST_KEY:
            raise ValueError(f"{variable} must have {LEAST_KEY} characters or more")
        if value and len(set(value)) < LEAST_LETTERS:
            raise ValueError(f"{variable} must have {LEAST_LETTERS} different characters or more")
        if not all("!" <= letter <= "~" for letter in value):  # no header can hold it
            raise ValueError(f"{variable} must be of printable ASCII characters without spaces")
        return SecretStr(value)

    @model_validator(mode="after")
    def _whole_provider(self) -> Self:
        """Check that the settings of an identity provider are complete."""
        if self.oidc_issuer and not (self.oidc_audience and self.oidc_roles):
            raise ValueError("DPMCMC_OIDC_ISSUER needs DPMCMC_OIDC_AUDIENCE and DPMCMC_OIDC_ROLES")
        if self.oidc_client_id and not (self.oidc_issuer and self.public_url):
            raise ValueError("DPMCMC_OIDC_CLIENT_ID needs DPMCMC_OIDC_ISSUER and DPMCMC_PUBLIC_URL")
        if self.oidc_device_client_id and not self.oidc_issuer:
            raise ValueError("DPMCMC_OIDC_DEVICE_CLIENT_ID needs DPMCMC_OIDC_ISSUER")
        return self

    @model_validator(mode="after")
    def _whole_sender(self) -> Self:
        """Check that the settings of mail are complete, and passwords are encrypted in transit."""
        if self.smtp_host and "@" not in self.smtp_from:
            raise ValueError("DPMCMC_SMTP_HOST needs an address in DPMCMC_SMTP_FROM")
        if self.smtp_user and self.smtp_security == "none":
            raise ValueError("DPMCMC_SMTP_USER needs DPMCMC_SMTP_SECURITY starttls or tls")
        return self

    @model_validator(mode="after")
    def _closed_cluster(self) -> Self:
        """Check that a cluster has TLS certificates: its workers execute received code."""
        if self.dask_scheduler.startswith("tcp://"):
            host = urlsplit(self.dask_scheduler).hostname
            if host not in ("127.0.0.1", "::1", "localhost"):
                raise ValueError("DPMCMC_DASK_SCHEDULER on another machine needs tls://")
        key = self.dask_key.get_secret_value()
        if self.dask_scheduler and not re.fullmatch("[0-9a-f]{64}", key):
            raise ValueError(
                "DPMCMC_DASK_SCHEDULER needs DPMCMC_DASK_KEY, 64 hexadecimal digits as"
                " `openssl rand -hex 32` makes"
            )
        return self

    @model_validator(mode="after")
    def _whole_key(self) -> Self:
        """Check that the store's access key has both id and secret, or neither."""
        if bool(self.s3_access_key.get_secret_value()) != bool(
            self.s3_secret_key.get_secret_value()
        ):
            raise ValueError("of DPMCMC_S3_ACCESS_KEY and DPMCMC_S3_SECRET_KEY only one is set")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in order: arguments, secret files, environment."""
        return init_settings, _SecretFiles(settings_cls), env_settings

    @property
    def running_of_user(self) -> int:
        """Number of jobs of one analyst that may run at once."""
        slots = max(self.workers, 1) * self.worker_concurrency
        return self.max_jobs_running or max(slots - 1, 1)

    @property
    def database(self) -> str:
        """The database URL; default: embedded SQLite."""
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'dpmcmc.sqlite3'}"

    @property
    def broker(self) -> str:
        """The broker URL; default: the embedded broker."""
        return self.broker_url or "dpmcmcqueue://"

    @property
    def queue_file(self) -> Path:
        """The path of the embedded broker's file."""
        return self.data_dir.absolute() / "queue.sqlite3"

    @property
    def datasets_dir(self) -> Path:
        """The folder of the encrypted rows."""
        return self.data_dir / "datasets"

    @property
    def anchor_path(self) -> Path:
        """The path of the anchor file."""
        return self.anchor_file or self.data_dir / "anchors.jsonl"

    @property
    def master_key_path(self) -> Path:
        """The path of the master key file."""
        return self.master_key_file or self.data_dir / "master.key"


@lru_cache
def settings() -> Settings:
    """Return the process's settings, cached."""
    return Settings()  # type: ignore[call-arg]


def variables_of(name: str, field: FieldInfo) -> list[str]:
    """Return the environment variables of a setting, the documented one first."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return [str(choice) for choice in alias.choices]
    return [f"{PREFIX}{name.upper()}"]


def table() -> str:
    """Return the settings as a Markdown table."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        variable = variables_of(name, field)[0]
        shown = f"`{variable}` or `{variable}_FILE`" if name in SECRETS else f"`{variable}`"
        default = field.default
        plain = default.get_secret_value() if isinstance(default, SecretStr) else default
        usual = (
            "-" if plain in ("", None) else f"`{str(plain).lower() if plain is True else plain}`"
        )
        lines.append(f"| {shown} | {usual} | {field.description} |")
    return "\n".join(lines)


def new_key() -> str:
    """Return a new API key of 256 random bits."""
    return f"dpm_{secrets.token_urlsafe(32)}"
