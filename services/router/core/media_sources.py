"""This module decides from where a model server may fetch the images, sound, video and files of a chat.

A part of a message may name its content by a URL, which the model server fetches, from inside its network. So only
`data:` URLs, which hold their content, and hosts that the operator lists are accepted. A URL of a listed host has the
one plain form that all readers of URLs understand alike: no user information, backslashes or blanks, a host in ASCII.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kernel.conversation import TEXT_PARTS, ChatMessage
from services.router.errors import MediaSourceNotAllowed

DEFAULT_PORTS = {"http": "80", "https": "443"}
# Names of fields that hold no location, whatever their text looks like.
_NO_LOCATIONS = frozenset({*TEXT_PARTS, "thinking", "type", "detail", "format", "filename", "name", "id"})
# Name of the field by which vLLM stores and finds media in a cache that all its callers share.
_CACHED = "uuid"
# Names of fields that hold a location, also without a scheme, such as a path on the model server.
_LOCATION = re.compile(r"(?:^|_)(?:url|uri|path|image|video|audio|file)$", re.IGNORECASE)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
# What readers of URLs leave out before they look for the scheme.
_IGNORED = re.compile(r"^[\x00-\x20]+|[\t\r\n]")
_HOST = r"(?P<host>[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
_URL = re.compile(rf"(?P<scheme>https?)://{_HOST}(?:[/?#][!-\[\]-~]*)?", re.IGNORECASE)
_LISTED = re.compile(_HOST)
_SHOWN = 120


def media_host(given: str) -> str:
    """Return a host as it is listed: `host`, or `host:port` for another port than the scheme's own.

    Raises:
        ValueError: When it is no host, e.g. a URL, a pattern, or in other letters than lower case of ASCII.

    Example:
        >>> media_host("images.example.com"), media_host("[::1]:8443")
        ('images.example.com', '[::1]:8443')
    """
    if not _LISTED.fullmatch(given) or given.partition(":")[0].endswith("."):
        raise ValueError(
            f"{given!r} is no host; give e.g. images.example.com or images.example.com:8443, in lower case,"
            " international names as xn--..."
        )
    return given


def check_media_sources(chat: Sequence[ChatMessage], hosts: Sequence[str]) -> None:
    """Return if everything that the parts of a chat name by URL may be fetched.

    Args:
        chat: The messages.
        hosts: The hosts that are listed.

    Raises:
        MediaSourceNotAllowed: For the first that may not; names its field.
    """
    for place, message in enumerate(chat):
        check_parts(message.get("content"), f"messages.{place}.content", hosts)


def check_parts(content: object, field: str, hosts: Sequence[str]) -> None:
    """Return if everything that the parts of one content name by URL may be fetched; a text is none.

    Args:
        content: The content.
        field: Name of its field.
        hosts: The hosts that are listed.

    Raises:
        MediaSourceNotAllowed: For the first that may not; names its field.
    """
    for number, part in enumerate(content if isinstance(content, list) else ()):
        _check(part, "", f"{field}.{number}", hosts)


def _check(item: Any, name: str, place: str, hosts: Sequence[str]) -> None:  # noqa: ANN401 - JSON is of any kind
    if isinstance(item, str):
        if name not in _NO_LOCATIONS:
            _check_text(item, name, place, hosts)
    elif isinstance(item, Mapping):
        for inner, part in item.items():
            if inner == _CACHED and part is not None:
                raise _not_allowed(
                    f"{place}.{inner}",
                    "it names content in the model server's cache, which may be another caller's; send the content"
                    " without it",
                )
            _check(part, inner, f"{place}.{inner}", hosts)
    elif isinstance(item, list):
        for number, part in enumerate(item):
            _check(part, name, f"{place}.{number}", hosts)


def _check_text(text: str, name: str, place: str, hosts: Sequence[str]) -> None:
    scheme = _SCHEME.match(_IGNORED.sub("", text[:2048]))
    kind = scheme[1].lower() if scheme else ""
    if kind == "data" or (not kind and not _LOCATION.search(name)):
        return
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    if kind not in DEFAULT_PORTS:
        what = f"has the scheme {kind}:" if kind else "is no URL"
        raise _not_allowed(place, f"{shown!r} {what}; send a data: URL, or an http(s) URL of a host that is allowed")
    found = _URL.fullmatch(text)
    if found is None:
        raise _not_allowed(
            place,
            f"{shown!r} is no plain URL; write it without user information, backslashes and blanks, the host in ASCII"
            " (xn--...), the rest percent-encoded",
        )
    host = found["host"].lower().removesuffix(".")
    port = found["port"] or DEFAULT_PORTS[kind]
    if f"{host}:{port}" not in hosts and (host not in hosts or port != DEFAULT_PORTS[kind]):
        named = host if port == DEFAULT_PORTS[kind] else f"{host}:{port}"
        raise _not_allowed(
            place,
            f"the model server would fetch it from {named}, which is not in METACOG_ROUTER_MEDIA_HOSTS;"
            " send a data: URL, or have the host listed there",
        )


def _not_allowed(place: str, problem: str) -> MediaSourceNotAllowed:
    return MediaSourceNotAllowed(f"{place}: {problem}", field=place)
