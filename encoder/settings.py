"""This module reads the settings of the encoder; every variable starts with METACOG_ENCODER_."""

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from encoder.errors import SettingsInvalid

PREFIX = "METACOG_ENCODER_"
DEFAULT_HOST = "127.0.0.1"
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the encoder are read once, when it starts.

    Args:
        host: Address to listen on; one that others can reach needs keys.
        port: Port to listen on.
        threads: Threads of torch.
        model_path: Folder of a sentence-transformers model; None for the packaged all-MiniLM-L6-v2.
        key_digests: SHA-256 [hexadecimal] of the bearer keys that are accepted; empty: no key is asked for.
        max_inputs: Texts in one request.
        max_characters: Characters in one text.
        max_body_bytes: Size of a request [bytes].
        max_batch: Texts encoded together.
        max_waiting: Texts that may wait; beyond that, 429.
    """

    host: str = DEFAULT_HOST
    port: int = 8001
    threads: int = 1
    model_path: Path | None = None
    key_digests: tuple[str, ...] = ()
    max_inputs: int = 2048
    max_characters: int = 100_000
    max_body_bytes: int = 8_000_000
    max_batch: int = 32
    max_waiting: int = 8192


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings from the environment.

    Raises:
        SettingsInvalid: A value is not usable, or the address is open to others and no key is configured.
    """
    path = environment.get(f"{PREFIX}MODEL_PATH")
    settings = Settings(
        host=environment.get(f"{PREFIX}HOST") or DEFAULT_HOST,
        port=_number(environment, "PORT", 8001, 65_535),
        threads=_number(environment, "THREADS", max(1, (os.cpu_count() or 1) // 2), 1024),
        model_path=Path(path) if path else None,
        key_digests=_digests(environment.get(f"{PREFIX}API_KEYS_SHA256", "")),
        max_inputs=_number(environment, "MAX_INPUTS", 2048, 1_000_000),
        max_characters=_number(environment, "MAX_CHARACTERS", 100_000, 10_000_000),
        max_body_bytes=_number(environment, "MAX_BODY_BYTES", 8_000_000, 1_000_000_000),
        max_batch=_number(environment, "MAX_BATCH", 32, 4096),
        max_waiting=_number(environment, "MAX_WAITING", 8192, 10_000_000),
    )
    if not is_loopback(settings.host) and not settings.key_digests:
        raise SettingsInvalid(
            f"{settings.host} is open to other machines; set {PREFIX}API_KEYS_SHA256 to the SHA-256 of the keys that "
            f"may be used (comma-separated, hexadecimal), or {PREFIX}HOST to 127.0.0.1"
        )
    return settings


def _number(environment: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = environment.get(PREFIX + name)
    if not text:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise SettingsInvalid(f"{PREFIX}{name} is {text!r}; it must be a whole number from 1 to {most}")
    return int(text)


def _digests(text: str) -> tuple[str, ...]:
    """Return the digests in a comma-separated list."""
    digests = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    if any(not DIGEST.fullmatch(digest) for digest in digests):
        raise SettingsInvalid(f"{PREFIX}API_KEYS_SHA256 must hold SHA-256 digests, 64 hexadecimal digits each")
    return digests


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
