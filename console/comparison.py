"""Compares two runs."""

from collections.abc import Callable, Mapping
from typing import Any

from console import formatting
from kernel.msv import COMPONENTS
from kernel.values import value

Data = Mapping[str, Any]


@value
class Row:
    """A row compares one property of the runs.

    Attributes:
        name: Name of the property.
        first: Its value in the first run.
        second: Its value in the second run.
        difference: Second value minus the first; empty if they are equal, or one is unknown.
        differs: Whether the values differ.
    """

    name: str
    first: str
    second: str
    difference: str = ""
    differs: bool = False


def comparison(first: Data, second: Data) -> list[Row]:
    """Return the properties of the two runs, with their differences."""
    rows = [_words(name, read(first), read(second)) for name, read in _WORDS.items()]
    rows += [_numbers(name, digits, read(first), read(second)) for name, (digits, read) in _NUMBERS.items()]
    return rows


def _words(name: str, first: str, second: str) -> Row:
    return Row(name=name, first=first, second=second, differs=first != second)


def _numbers(name: str, digits: int, first: float | None, second: float | None) -> Row:
    left, right = (formatting.number(level, digits) for level in (first, second))
    difference = ""
    if first is not None and second is not None and left != right:
        difference = f"{second - first:+,.{digits}f}"
    return Row(name=name, first=left, second=right, difference=difference, differs=left != right)


def _component(name: str) -> Callable[[Data], float | None]:
    def read(run: Data) -> float | None:
        msv = (run.get("route") or {}).get("msv") or {}
        level: float | None = msv.get(name)
        return level

    return read


def _activation(run: Data) -> float | None:
    level: float | None = ((run.get("route") or {}).get("activation") or {}).get("value")
    return level


def _reason(run: Data) -> str:
    route = run.get("route") or {}
    return formatting.reason(route["reason"], route["system"]) if route else formatting.UNKNOWN


def _feedback(run: Data) -> str:
    scores = [each["score"] for each in run.get("feedback") or ()]
    return ", ".join({1.0: "right", 0.0: "wrong"}.get(score, formatting.number(score)) for score in scores) or "none"


_WORDS: Mapping[str, Callable[[Data], str]] = {
    "system": lambda run: formatting.system((run.get("route") or {}).get("system")),
    "strategy": lambda run: run["strategy"] or formatting.UNKNOWN,
    "reason": _reason,
    "outcome": lambda run: formatting.words(run["error_reason"] or run["outcome"]),
    "model": lambda run: run["model"] or formatting.UNKNOWN,
    "configuration": lambda run: run["config_version"] or formatting.UNKNOWN,
    "source of the confidence": lambda run: formatting.source(run["confidence_source"]),
    "what the confidence is": lambda run: formatting.confidence_state(run) or formatting.UNKNOWN,
    "degraded": lambda run: "; ".join(run["degraded_reasons"]) or "no",
    "label": _feedback,
}
_NUMBERS: Mapping[str, tuple[int, Callable[[Data], float | None]]] = {
    "activation": (3, _activation),
    **{formatting.words(name): (2, _component(name)) for name in COMPONENTS},
    "confidence": (2, lambda run: run["confidence"]),
    "generations": (0, lambda run: run["usage"]["generations"]),
    "tokens generated": (0, lambda run: run["usage"]["completion_tokens"]),
    "prompt tokens": (0, lambda run: run["usage"]["prompt_tokens"]),
    "time [s]": (1, lambda run: run["duration_ms"] / 1000),
    "first token [s]": (1, lambda run: None if run["first_token_ms"] is None else run["first_token_ms"] / 1000),
}
