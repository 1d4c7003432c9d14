"""Comparing tells where two responses differ, by path."""

import re
from typing import Any

BOXES = re.compile("[\u2500-\u257f]")
NOTHING = "(nothing)"
SHOWN = 160


def differences(recorded: Any, now: Any, at: str = "$") -> list[str]:  # noqa: ANN401 - JSON documents
    """One line for each place where `now` differs from `recorded`."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        names = [*recorded, *(name for name in now if name not in recorded)]
        pairs = [(f"{at}.{name}", recorded.get(name, NOTHING), now.get(name, NOTHING)) for name in names]
    elif isinstance(recorded, list) and isinstance(now, list):
        longest = range(max(len(recorded), len(now)))
        pairs = [(f"{at}[{place}]", _item(recorded, place), _item(now, place)) for place in longest]
    elif isinstance(recorded, float) and isinstance(now, int | float) and not isinstance(now, bool):
        return [] if abs(recorded - now) <= 1e-9 * max(1.0, abs(recorded)) else [_line(at, recorded, now)]
    else:
        return [] if type(recorded) is type(now) and recorded == now else [_line(at, recorded, now)]
    return [line for place, old, new in pairs for line in differences(old, new, place)]


def loosened(response: Any) -> Any:  # noqa: ANN401 - a JSON document
    """A response with printed lines as one text without layout: a renamed word changes columns and line ends."""
    if isinstance(response, dict):
        return {name: loosened(each) for name, each in response.items()}
    if isinstance(response, list) and response and all(isinstance(line, str) for line in response):
        return " ".join(BOXES.sub(" ", " ".join(response)).split())
    return [loosened(each) for each in response] if isinstance(response, list) else response


def _item(items: list[Any], place: int) -> Any:  # noqa: ANN401 - a JSON document
    return items[place] if place < len(items) else NOTHING


def _line(at: str, recorded: Any, now: Any) -> str:  # noqa: ANN401 - JSON documents
    return f"{at}: recorded {_short(recorded)}, now {_short(now)}"


def _short(found: Any) -> str:  # noqa: ANN401 - a JSON document
    text = found if found is NOTHING else repr(found)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
