"""API keys are read from the keys file, which states for each whether the suite may learn from it."""

import re
from collections.abc import Sequence
from pathlib import Path

import yaml

from chassis.errors import ConfigurationInvalid, Unauthenticated
from chassis.serving.auth import ACT, TEACH, ApiKey, Keyring, bearer
from chassis.serving.wire import from_plain
from kernel.errors import MalformedRequest, TeachingNotAllowed
from kernel.values import value

# Names of the suite's own key, of now and while it is rotated, as `make keys` gives them.
OWN_KEYS = frozenset({"suite", "suite-old"})


@value
class KeyEntry:
    """An entry of the keys file describes one key.

    Attributes:
        name: Name of the holder; recorded with each run.
        sha256: SHA-256 of the key [hexadecimal].
        may_teach: Whether feedback under this key may change profiles, experience and calibration.
        acts_for_others: Whether calls under this key may be made for holders of others, as those between services are;
            None: only if it is called `suite` or `suite-old`.
    """

    name: str
    sha256: str
    may_teach: bool = True
    acts_for_others: bool | None = None

    def api_key(self) -> ApiKey:
        """Return the key with its permissions."""
        acts = self.name in OWN_KEYS if self.acts_for_others is None else self.acts_for_others
        permissions = {TEACH: self.may_teach, ACT: acts}
        allowed = frozenset(name for name, is_given in permissions.items() if is_given)
        return ApiKey(name=self.name, sha256=self.sha256, allowed=allowed)


@value
class KeysFile:
    """The keys file lists the keys."""

    keys: Sequence[KeyEntry]


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
    return Keyring([key.api_key() for key in listed.keys])


def check_peer_key(keyring: Keyring, peer_key: str) -> None:
    """Check that the key with which this service calls the others may act for the holders of other keys.

    A key that is not in the ring is not judged, since the other services may have a keys file of their own.

    Raises:
        ConfigurationInvalid: When it may not.
    """
    try:
        holder = keyring.holder(bearer(peer_key).get("authorization", ""))
    except Unauthenticated:
        return
    if keyring and not holder.may(ACT):
        raise ConfigurationInvalid(
            f"METACOG_PEER_KEY is the key of {holder.name!r} in the keys file, which may not act for the holders of "
            "other keys, as calls between services do: set `acts_for_others: true` for it there",
            setting="METACOG_PEER_KEY",
        )


def keys_text(keys: Sequence[ApiKey]) -> str:
    """Return the text of a keys file with `keys`."""
    entries: list[dict[str, object]] = [
        {
            "name": key.name,
            "sha256": key.sha256,
            "may_teach": key.may(TEACH),
            **({"acts_for_others": key.may(ACT)} if key.may(ACT) != (key.name in OWN_KEYS) else {}),
        }
        for key in keys
    ]
    return yaml.safe_dump({"keys": entries}, sort_keys=False)


def check_may_teach(key: ApiKey) -> None:
    """Return if `key` may change what the suite has learned.

    Raises:
        TeachingNotAllowed: When it may not.
    """
    if not key.may(TEACH):
        raise TeachingNotAllowed(
            f"the key of {key.name!r} may not change what the suite has learned", key_name=key.name
        )
