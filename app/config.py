"""Settings: every environment variable of sparkgate, read once, typed, with its unit in its name.

Every variable carries the prefix ``SPARKGATE_``; a field ``lease_s`` is set by ``SPARKGATE_LEASE_S``.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MIB = 1024 * 1024

# What a setting that must not be printed is kept in; `get_secret_value()` is the text.
Secret = SecretStr

# Raised by `Settings()`; `settings_problems` says it in words.
InvalidSettings = ValidationError


class Settings(BaseSettings):
    """What an operator may set. Defaults serve ``make up`` on one machine."""

    model_config = SettingsConfigDict(env_prefix="SPARKGATE_", extra="ignore", frozen=True)

    home: Path = Field(default=Path(".sparkgate"), description="state of an embedded installation")

    # Control plane
    database_url: Secret | None = Field(default=None, description="PostgreSQL as the app role")
    owner_database_url: Secret | None = Field(default=None, description="PostgreSQL as the owner role")
    broker_url: Secret | None = Field(default=None, description="Redis or Valkey, redis://…")
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65535)
    web_processes: int = Field(default=1, ge=1, le=64, description="behind the port; each has one core")
    cookie_secure: bool = Field(default=False, description="send the session cookie over HTTPS only")
    session_s: int = Field(default=12 * 3600, ge=60)
    secret_key_file: Path | None = Field(default=None, description="key of the page tokens' MAC")
    ledger_key_file: Path | None = Field(
        default=None, description="key that signs the ledger's checkpoints, mode 0600"
    )
    ledger_origin: str | None = Field(default=None, description="the ledger's name; the key's if not given")
    pool_connections: int = Field(default=20, ge=1)
    pool_wait_s: float = Field(default=10.0, gt=0)

    deployable_grade: Literal["attested", "self-consistent", "demonstrated"] = Field(
        default="self-consistent", description="weakest grade of evidence with which an image is deployable"
    )

    # Evidence bundles: the control worker writes them, the web process gives them out
    evidence_folder: Path | None = Field(default=None, description="where bundles lie; else in the home")
    evidence_days: int = Field(default=30, ge=1, le=3650, description="how long a bundle's file is kept")

    # How often anybody may ask, in requests a minute; 0: as often as they like
    rate_key_per_min: int = Field(default=24_000, ge=0, description="of one API key; a node's keys are free")
    rate_stranger_per_min: int = Field(default=600, ge=0, description="without a good key, of one address")
    rate_login_per_min: int = Field(default=10, ge=0, description="failed, of one name from one address")
    rate_login_name_per_min: int = Field(default=200, ge=0, description="failed logins under one name")
    rate_login_address_per_min: int = Field(default=60, ge=0, description="failed logins from one address")
    rate_storage_url: Secret | None = Field(default=None, description="where replicas count together")

    # Scheduling
    lease_s: float = Field(default=30.0, ge=1, description="how long a silent rank keeps its device")
    ready_deadline_s: float = Field(default=600.0, ge=1, description="admission to ready on every rank")
    resend_first_s: float = Field(default=5.0, gt=0)
    resend_cap_s: float = Field(default=60.0, gt=0)
    resend_limit: int = Field(default=8, ge=0, description="sends of one rank before it counts as lost")
    try_limit: int = Field(default=5, ge=1, description="tries of one restore, the first one included")
    node_silence_s: float = Field(default=30.0, ge=1, description="a node not heard for so long is away")
    resident_s: int = Field(default=600, ge=1, description="how long restored pages stay unless told else")
    housekeeping_s: float = Field(default=1.0, gt=0)

    # A GPU node
    control_url: str = "http://127.0.0.1:8080"
    api_key_file: Path | None = Field(default=None, description="file with the node's API key, mode 0600")
    node: str = Field(default="local", pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    devices: Annotated[tuple[str, ...], NoDecode] = ("host0",)
    device: str | None = Field(default=None, description="the one device of a rank worker process")
    store_roots: Annotated[tuple[Path, ...], NoDecode] = ()
    scan_s: float = Field(default=5.0, gt=0, description="seconds between two inventory scans")
    pool_bytes: int = Field(default=2048 * MIB, ge=1, description="page pool of one device")
    readers: int | None = Field(default=None, ge=1, le=32, description="None: what suits the cores")

    @field_validator("devices", "store_roots", mode="before")
    @classmethod
    def _split_list(cls, value: object) -> object:
        """``a,b`` for names, as people write lists in environment variables."""
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value


class KeyFileError(Exception):
    """There is no API key where one was said to be; the message repeats nothing of the file."""


def read_key_file(path: Path) -> str:
    """The API key a file holds, and nothing else: whatever cannot be a header would be repeated by the error
    that says so.

    Raises:
        KeyFileError: the file cannot be read, or holds something else.
    """
    try:
        text = path.read_bytes().decode("ascii", "replace").strip()
    except OSError as error:
        raise KeyFileError(f"API key file {path}: {error.strerror}") from error
    if not re.fullmatch(r"[!-~]+", text):
        found = "nothing" if not text else "something else"
        raise KeyFileError(f"API key file {path}: expected one line with an API key (sgk_…), found {found}")
    return text


def settings_problems(error: InvalidSettings) -> list[str]:
    """One line per variable that cannot be used: its name, what was expected, what was found."""
    lines = []
    for part in error.errors():
        name = "_".join(str(step) for step in part["loc"][:1]).upper()
        found = "a secret" if name.endswith("_URL") else repr(part["input"])
        lines.append(f"SPARKGATE_{name}: {part['msg']}, found {found}")
    return lines


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The process's settings, read from the environment on first use."""
    return Settings()
