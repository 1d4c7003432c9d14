"""The logins of the console: each has an API key, which only the server stores; the browser has a random name."""

import secrets
import time
from collections.abc import Callable

from chassis.errors import Unauthenticated
from chassis.serving.auth import Keyring, bearer
from kernel.values import value

MOST = 1000


@value
class Session:
    """One login.

    Attributes:
        key: API key for the services.
        holder: Name of the key's holder; empty if no login is required.
        until: End of the login [s, monotonic].
    """

    key: str
    holder: str
    until: float


class Sessions:
    """The logins.

    Args:
        keyring: Keys that may log in.
        lasting_s: Time after which a login ends [s].
        now: Clock [s, monotonic].
    """

    def __init__(self, keyring: Keyring, *, lasting_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._keyring = keyring
        self._lasting_s = lasting_s
        self._now = now
        self._held: dict[str, Session] = {}

    def log_in(self, key: str) -> str:
        """Create a login with `key`, and return its name.

        Raises:
            Unauthenticated: The key is unknown.
        """
        key = key.strip()
        if not self._keyring or not key:
            raise Unauthenticated("Enter an API key of this suite.")
        holder = self._holder(key)
        self._make_room()
        name = secrets.token_urlsafe(32)
        self._held[name] = Session(key=key, holder=holder, until=self._now() + self._lasting_s)
        return name

    def find(self, name: str) -> Session | None:
        """Return the login called `name`; None if there is none, or it has ended."""
        session = self._held.get(name)
        if session is not None and session.until <= self._now():
            del self._held[name]
            return None
        return session

    def log_out(self, name: str) -> None:
        """End a login."""
        self._held.pop(name, None)

    def _holder(self, key: str) -> str:
        try:
            return self._keyring.holder(bearer(key)["authorization"]).name
        except Unauthenticated:
            raise Unauthenticated("This key is unknown. Check whether it is complete.") from None

    def _make_room(self) -> None:
        now = self._now()
        self._held = {name: held for name, held in self._held.items() if held.until > now}
        while len(self._held) >= MOST:
            del self._held[next(iter(self._held))]
