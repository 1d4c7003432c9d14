"""API keys are stored as hashes, and needed in every API as soon as a keys file is configured."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from chassis.errors import ConfigurationInvalid, OwnerNotAllowed, Unauthenticated
from chassis.log import logger
from chassis.settings import is_loopback
from kernel.values import value

# The permission to act for the holders of other keys, which the suite's own key has: what a service does for a caller
# then belongs to that caller in the next service too.
ACT = "act_for_others"
# The permission to change what the suite has learned: profiles, experience and calibration.
TEACH = "teach"
# gRPC metadata with the name of the key that a call is made for [UTF-8].
OWNER = "metacog-owner-bin"


@value
class ApiKey:
    """An API key belongs to one holder.

    Attributes:
        name: Name of the holder; recorded with each run.
        sha256: SHA-256 of the key [hexadecimal].
        allowed: Names of the permissions that the key has.
    """

    name: str
    sha256: str
    allowed: frozenset[str] = frozenset()

    def may(self, permission: str) -> bool:
        """Return whether the key has the permission of that name."""
        return permission in self.allowed


# Every caller of a suite without keys, which is for loopback only: it may do everything.
ANYONE = ApiKey(name="", sha256="", allowed=frozenset({ACT, TEACH}))

_log = logger(__name__)


class Keyring:
    """A keyring holds the keys that are accepted; an empty one accepts every request and is for loopback only."""

    def __init__(self, keys: Sequence[ApiKey] = ()) -> None:
        self.keys = tuple(keys)
        self._has_reported = False

    def __bool__(self) -> bool:
        return bool(self.keys)

    def holder(self, authorization: str) -> ApiKey:
        """Return the key in an `Authorization` header.

        Raises:
            Unauthenticated: When keys are configured and this is not one of them.
        """
        if not self.keys:
            self.is_unchecked(authorization)
            return ANYONE
        scheme, _, key = authorization.partition(" ")
        digest = sha256(key.strip().encode()).hexdigest()
        for known in self.keys:
            if scheme.lower() == "bearer" and hmac.compare_digest(known.sha256.lower(), digest):
                return known
        raise Unauthenticated("send an API key that this suite knows, as `Authorization: Bearer <key>`")

    def is_unchecked(self, authorization: str) -> bool:
        """Return whether an `Authorization` header has a key that is not checked, as none is configured.

        The first one is logged: whoever sends a key expects that others are kept out.
        """
        if self.keys or not authorization:
            return False
        if not self._has_reported:
            self._has_reported = True
            _log.warning(
                "a request has an API key, and none is configured: every caller is let in; set METACOG_KEYS_FILE to "
                "check keys"
            )
        return True

    def owner(self, key: ApiKey, name: str) -> ApiKey:
        """Return the key of the holder called `name`, for whom the holder of `key` acts; with no name, `key`.

        The owner may do what both may, and acts for no other key. An owner without a key may do what `key` may.
        Without keys nothing has an owner, and all callers are the same one.

        Raises:
            OwnerNotAllowed: When the holder of `key` may not act for others.
        """
        if not name or not self.keys:
            return key
        if not key.may(ACT):
            raise OwnerNotAllowed(
                f"the key {key.name!r} may not act for {name!r}; if it is the suite's own, set `acts_for_others: true` "
                "for it in the keys file",
                key_name=key.name,
            )
        stranger = ApiKey(name=name, sha256="", allowed=key.allowed)
        known = next((each for each in self.keys if each.name == name), stranger)
        return replace(known, allowed=(known.allowed & key.allowed) - {ACT})

    def has(self, authorization: str) -> bool:
        """Return whether the key in an `Authorization` header is one of those configured."""
        try:
            return self.holder(authorization) is not ANYONE
        except Unauthenticated:
            return False


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
