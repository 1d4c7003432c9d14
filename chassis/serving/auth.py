"""API keys are stored as hashes, and needed in every API as soon as a keys file is configured."""

import hmac
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import yaml

from chassis.errors import ConfigurationInvalid, Unauthenticated
from chassis.serving.wire import from_plain
from chassis.settings import is_loopback
from kernel.errors import Code, MalformedRequest, MetacogError
from kernel.values import value


@value
class ApiKey:
    """An API key belongs to one holder.

    Attributes:
        name: Name of the holder; recorded with each run.
        sha256: SHA-256 of the key [hexadecimal].
        may_teach: Whether feedback under this key may change profiles, experience and calibration.
    """

    name: str
    sha256: str
    may_teach: bool = True


@value
class KeysFile:
    """The keys file lists the keys."""

    keys: Sequence[ApiKey]


ANYONE = ApiKey(name="", sha256="")


class Keyring:
    """A keyring holds the keys that are accepted; an empty one accepts every request and is for loopback only."""

    def __init__(self, keys: Sequence[ApiKey] = ()) -> None:
        self.keys = tuple(keys)

    def __bool__(self) -> bool:
        return bool(self.keys)

    def holder(self, authorization: str) -> ApiKey:
        """Return the key in an `Authorization` header.

        Raises:
            Unauthenticated: When keys are configured and this is not one of them.
        """
        if not self.keys:
            return ANYONE
        scheme, _, key = authorization.partition(" ")
        digest = sha256(key.strip().encode()).hexdigest()
        for known in self.keys:
            if scheme.lower() == "bearer" and hmac.compare_digest(known.sha256.lower(), digest):
                return known
        raise Unauthenticated("send an API key that this suite knows, as `Authorization: Bearer <key>`")


def read_keys(path: Path | None) -> Keyring:
    """Return the keys of the file at `path`; without a path, an empty ring.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the reason.
    """
    if path is None:
        return Keyring()
    try:
        listed = from_plain(yaml.safe_load(path.read_text()), KeysFile)
    except (OSError, ValueError, yaml.YAMLError, MalformedRequest) as error:
        raise ConfigurationInvalid(f"keys file {path}: {error}", file=str(path)) from error
    if not listed.keys:
        raise ConfigurationInvalid(f"keys file {path}: at least one key is needed", file=str(path))
    names = [key.name for key in listed.keys]
    if "" in names or len(set(names)) < len(names):
        raise ConfigurationInvalid(f"keys file {path}: every key needs a name of its own", file=str(path))
    for key in listed.keys:
        if not re.fullmatch("[0-9a-fA-F]{64}", key.sha256):
            raise ConfigurationInvalid(f"keys file {path}: {key.name} has no sha256 of 64 hexadecimal digits")
    return Keyring(listed.keys)


def check_keys_beyond_loopback(host: str, keyring: Keyring, setting: str) -> None:
    """Check that a service which other machines can reach has keys.

    Raises:
        ConfigurationInvalid: For a host beyond loopback and an empty ring.
    """
    if not keyring and not is_loopback(host):
        raise ConfigurationInvalid(
            f"{setting} is {host}, which others can reach, and no API keys are configured: "
            "set METACOG_KEYS_FILE, or listen on 127.0.0.1",
            setting=setting,
        )


def bearer(key: str) -> Mapping[str, str]:
    """Return the headers that carry `key`; none for an empty key."""
    return {"authorization": f"Bearer {key}"} if key else {}


class TeachingNotAllowed(MetacogError):
    """The key may not change what the suite has learned."""

    code = Code.PERMISSION_DENIED
    reason = "TEACHING_NOT_ALLOWED"


def check_may_teach(key: ApiKey) -> None:
    """Return if `key` may change what the suite has learned.

    Raises:
        TeachingNotAllowed: When it may not.
    """
    if not key.may_teach:
        raise TeachingNotAllowed(
            f"the key of {key.name!r} may not change what the suite has learned", key_name=key.name
        )
