"""Settings of the API and of workers: environment variables ``GRADMILL_*``, each described here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MEBIBYTE = 2**20
GIBIBYTE = 2**30


def _split(value: object) -> object:
    return (
        tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    )


def read_secret(path: Path | None) -> str:
    """What a file holds beside white space, nothing without a file. ValueError when it can't be read."""
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


class Settings(BaseSettings):
    """Times in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(env_prefix="GRADMILL_", extra="ignore", frozen=True)

    redis_url: str = Field(
        "redis://127.0.0.1:6379/0", description="where Redis is: redis://, rediss:// or unix://"
    )
    redis_url_file: Path | None = Field(
        None, description="file with such an address, for one that holds a password; prevails"
    )
    data_dir: Path = Field(Path("data"), description="folder of blobs and of the embedded server's files")
    host: str = Field("127.0.0.1", description="address to listen on; another than loopback needs a key file")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    api_key_file: Path | None = Field(None, description="file with one API key a line")
    allowed_hosts: Names = Field(
        (), description="further names this server is reached by (Host header), separated by commas"
    )
    allowed_origins: Names = Field(
        (), description="further origins whose pages may call the API, separated by commas"
    )
    body_limit: int = Field(4 * MEBIBYTE, ge=1024, description="largest JSON body")
    upload_limit: int = Field(256 * MEBIBYTE, ge=1, description="largest uploaded file")
    blob_limit: int = Field(8 * GIBIBYTE, ge=1, description="largest checkpoint, model or other blob")
    connection_limit: int = Field(4000, ge=1, description="most open connections")
    address_limit: int = Field(
        2000,
        ge=1,
        description="most open connections of one address; a proxy in front needs all",
    )
    request_s: float = Field(
        20.0, gt=0, description="time a request may take to come, and a second more for each KiB of it"
    )
    queued_limit: int = Field(100_000, ge=0, description="most queued jobs of one key; 0: no bound")
    running_limit: int = Field(0, ge=0, description="most running jobs of one key; 0: no bound")
    bytes_limit: int = Field(
        0, ge=0, description="most bytes of one key's uploads and checkpoints; 0: no bound"
    )
    keep_s: float = Field(0.0, ge=0, description="how long ended jobs are kept; 0: for ever")
    lease_s: float = Field(10.0, gt=0, description="silence after which a worker loses its job")
    sweep_s: float = Field(2.0, gt=0, description="how often leases are checked and missing tickets replaced")
    flush_s: float = Field(0.25, gt=0, description="how often a worker sends what a job has to say")
    quick_flush_s: float = Field(0.02, gt=0, description="the same for ephemeral jobs")
    renew_s: float = Field(3.0, gt=0, description="how often a worker renews its lease with nothing to say")
    grace_s: float = Field(10.0, gt=0, description="how long a job may ignore a request to stop")
    stall_s: float = Field(60.0, gt=0, description="time a step may take before it counts as hung")
    worker_memory: int | None = Field(
        None, ge=0, description="most memory of a worker process; none: 9/10 of what there is; 0: no bound"
    )
    blob_url: str | None = Field(
        None,
        description="address of the API that keeps a worker's blobs; none: the data folder does",
    )
    worker_key_file: Path | None = Field(None, description="file with the API key of such a worker")

    @model_validator(mode="before")
    @classmethod
    def _read_redis_url(cls, given: dict[str, Any]) -> dict[str, Any]:
        if not (file := given.get("redis_url_file")):
            return given
        return {**given, "redis_url": read_secret(Path(file))}

    @property
    def lease_ms(self) -> int:
        """The lease in milliseconds."""
        return round(self.lease_s * 1000)

    @property
    def blob_dir(self) -> Path:
        """The folder of the blob store."""
        return self.data_dir / "blobs"
