"""Web pages of other sites are kept out: by the host that a request names, by its origin, and by the form of its body.

Without API keys, whoever reaches a port may use it, and a browser on this machine reaches the ports of loopback for
every page that it shows. A page of another site gets there under its own host name (DNS rebinding), or sends what a
browser sends without asking first (a form, or plain text).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import Scope

from chassis.errors import HostNotAllowed, OriginNotAllowed, UnsupportedMediaType
from chassis.settings import is_loopback

JSON = b"application/json"
FORM = b"multipart/form-data"

Headers = Mapping[bytes, bytes]


class AllowedHosts:
    """These hosts are the names under which a service answers.

    Those of loopback are always among them, and so is the address that a connection came to: an address cannot be bound
    to another machine, as a name can.

    Args:
        names: The other names and addresses.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = frozenset(name.lower() for name in names)

    def has(self, host: str, scope: Scope) -> bool:
        """Return whether a request may name `host`, the content of its `Host` header."""
        if _names_loopback(host):
            return True
        name = name_of(host)
        return name in self._names or _is_own_address(name, scope)

    def check(self, headers: Headers, scope: Scope) -> None:
        """Check that a request names an allowed host; one without a host comes from no browser.

        Raises:
            HostNotAllowed: When it does not.
        """
        if b"host" not in headers:
            return
        host = headers[b"host"].decode("latin-1")
        if not self.has(host, scope):
            message = (
                f"this service does not answer to the host {name_of(host)!r}: use localhost or 127.0.0.1, or set "
                "METACOG_ALLOWED_HOSTS to the names that it shall answer to"
            )
            raise HostNotAllowed(message, host=name_of(host))


@lru_cache(maxsize=256)
def _names_loopback(host: str) -> bool:
    return is_loopback(name_of(host))


def _is_own_address(name: str, scope: Scope) -> bool:
    """Return whether `name` is the address, and no name, that the connection came to."""
    try:
        return ip_address(name) == ip_address((scope.get("server") or ("",))[0])
    except ValueError:
        return False


def name_of(host: str) -> str:
    """Return the name in a `Host` header; empty for one that cannot be read.

    Example:
        >>> [name_of(host) for host in ("localhost:8090", "[::1]:8090", "Evil.example", "[")]
        ['localhost', '::1', 'evil.example', '']
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def check_origin(headers: Headers) -> None:
    """Check that a request does not come from a page of another site, by what browsers say of it.

    Raises:
        OriginNotAllowed: When it does.
    """
    origin = headers.get(b"origin")
    is_foreign = origin is not None and _host_of(origin) != headers.get(b"host", b"").decode("latin-1").lower()
    if is_foreign or headers.get(b"sec-fetch-site") == b"cross-site":
        named = (origin or b"another site").decode("latin-1")
        message = (
            f"a page of {named} may not use this service: without API keys, it answers only to programs and to its own "
            "pages; send the request from a program"
        )
        raise OriginNotAllowed(message, origin=named)


def _host_of(origin: bytes) -> str | None:
    try:
        return urlsplit(origin.decode("latin-1")).netloc.lower() or None
    except ValueError:
        return None


def check_media_type(headers: Headers, *, upload: bool = False) -> None:
    """Check that a body is sent as JSON, which a browser sends for no other site without asking first.

    Args:
        headers: Headers of the request.
        upload: Whether its path takes a form with a file instead; `check_origin` keeps those of other sites out.

    Raises:
        UnsupportedMediaType: When there is a body and it is not.
    """
    sent = headers.get(b"content-type", b"")
    wanted = FORM if upload else JSON
    if sent == wanted or sent.partition(b";")[0].strip().lower() == wanted:
        return
    if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
        named = sent.decode("latin-1") or "no type"
        message = f"the body is sent as {named}, and must be " + (
            "a form of type multipart/form-data with a file (curl: -F file=@NAME)"
            if upload
            else "JSON with the header `Content-Type: application/json` (curl: -H 'Content-Type: application/json')"
        )
        raise UnsupportedMediaType(message, content_type=sent.decode("latin-1"))
