"""Settings are read from the environment once, in `__main__`, and passed on as plain arguments."""

import os
import re
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from chassis.admission import MAX_HELD_BODY_BYTES
from chassis.errors import ConfigurationInvalid
from kernel.violations import violation

S = TypeVar("S", bound=BaseSettings)

# Where containers find secrets as files, each named like its variable in small letters; METACOG_SECRETS_DIR moves it.
SECRETS_DIR = "/run/secrets"


class HttpSettings(BaseSettings):
    """These settings bound what HTTP callers of every process may do; environment variables `METACOG_...`."""

    model_config = SettingsConfigDict(env_prefix="METACOG_", env_ignore_empty=True, frozen=True)

    http_max_head_bytes: int = Field(
        65_536, ge=1024, description="Largest request line and headers accepted, together [bytes]"
    )
    http_head_timeout_s: float = Field(
        10.0, gt=0, description="Time within which the headers of a request must arrive [s]"
    )
    http_body_timeout_s: float = Field(
        60.0, gt=0, description="Time within which the body of a request must arrive [s]"
    )
    http_upload_timeout_s: float = Field(
        900.0, gt=0, description="Time within which a form with a file must arrive, however steadily it comes [s]"
    )
    # Longer than clients and proxies usually keep theirs (httpx 5 s, nginx 60 s, Go 90 s), so that none of them sends a
    # request into a connection that is being closed.
    http_idle_timeout_s: int = Field(
        120, ge=1, description="Time after which a connection without a request is closed [s]"
    )
    http_max_connections: int = Field(
        1024,
        ge=1,
        description="HTTP connections of one process at a time; a further one takes the place of an idle one, else it "
        "gets 503 and is closed",
    )
    allowed_hosts: str = Field(
        "",
        description="Host names, separated by commas, under which the console, and services without API keys, answer; "
        "the names of loopback and the address that a connection came to are always allowed",
    )

    @property
    def hosts(self) -> list[str]:
        """Return the allowed host names."""
        return [name.strip() for name in self.allowed_hosts.split(",") if name.strip()]


class ApiSettings(BaseSettings):
    """These settings state where one service listens; environment variables `METACOG_<SERVICE>_...`."""

    model_config = SettingsConfigDict(env_ignore_empty=True, frozen=True)

    host: str = Field("127.0.0.1", description="Address to listen on; beyond loopback only with METACOG_KEYS_FILE")
    rest_port: int = Field(8080, ge=0, le=65535, description="Port of the REST API")
    grpc_port: int = Field(50051, ge=0, le=65535, description="Port of the gRPC API")
    max_body_bytes: int = Field(1_048_576, ge=1024, description="Largest request body accepted [bytes]")
    max_held_body_bytes: int = Field(
        MAX_HELD_BODY_BYTES,
        ge=1024,
        description="Bodies of all REST requests in progress together [bytes]; a request in progress takes about four "
        "times its body in memory, and more of them get a 429",
    )
    max_in_flight: int = Field(128, ge=1, description="Requests that models work for at a time; more get a 429")
    max_message_bytes: int = Field(4_194_304, ge=1024, description="Largest gRPC message accepted [bytes]")
    max_calls: int = Field(1024, ge=1, description="gRPC calls at a time; a further one fails with TOO_MANY_CALLERS")
    message_timeout_s: float = Field(
        60.0, gt=0, description="Time within which the message of a gRPC call must arrive [s]"
    )
    lame_duck_s: float = Field(
        0.0,
        ge=0,
        description="Time at shutdown in which the service is unready and still takes requests, before grace_s [s]",
    )
    grace_s: float = Field(20.0, ge=0, description="Time that requests in flight get at shutdown [s]")


def read(kind: type[S]) -> S:
    """Read the settings of `kind` from the environment, and what is missing there from files of secrets.

    Raises:
        ConfigurationInvalid: When a variable has an unusable value; names the variable.
    """
    try:
        return kind(_secrets_dir=_secrets_dir())
    except ValidationError as error:
        first = error.errors()[0]
        variable = f"{kind.model_config.get('env_prefix', '')}{'_'.join(str(s) for s in first['loc'])}".upper()
        message = f"{variable}: {violation(first)} (it is {first['input']!r})"
        raise ConfigurationInvalid(message, setting=variable) from error
    except SettingsError as error:  # a variable that holds a mapping and is not JSON
        field = re.search(r'field "(\w+)"', str(error))
        variable = f"{kind.model_config.get('env_prefix', '')}{field[1] if field else ''}".upper()
        raise ConfigurationInvalid(f"{variable}: {error.__cause__ or error}", setting=variable) from error


def _secrets_dir() -> Path | None:
    folder = Path(os.environ.get("METACOG_SECRETS_DIR") or SECRETS_DIR)
    return folder if folder.is_dir() else None


def is_loopback(host: str) -> bool:
    """Return whether `host` is reachable from this machine only.

    Example:
        >>> [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.5")]
        [True, True, True, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
