"""Compares two runs."""

from collections.abc import Callable, Mapping

from metacog.common.v1.answer_pb2 import Outcome
from metacog.router.v1.route_pb2 import Route
from metacog.router.v1.router_pb2 import Run

from chassis.serving.wire import optional, word
from console import formatting
from console.replies.fields import component
from kernel.msv import COMPONENTS
from kernel.values import value


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


def comparison(first: Run, second: Run) -> list[Row]:
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


def _component(name: str) -> Callable[[Run], float | None]:
    return lambda run: component(run.route.msv, name)


def _system(run: Run) -> str:
    return word(Route, run.route.system)


def _reason(run: Run) -> str:
    return formatting.reason(run.route.reason, _system(run)) if run.HasField("route") else formatting.UNKNOWN


def _outcome(run: Run) -> str:
    return formatting.words(run.error_reason or word(Outcome, run.outcome) or formatting.UNKNOWN)


def _feedback(run: Run) -> str:
    scores = [each.score for each in run.feedback]
    return ", ".join({1.0: "right", 0.0: "wrong"}.get(score, formatting.number(score)) for score in scores) or "none"


_WORDS: Mapping[str, Callable[[Run], str]] = {
    "system": lambda run: formatting.system(_system(run)),
    "strategy": lambda run: run.strategy or formatting.UNKNOWN,
    "reason": _reason,
    "outcome": _outcome,
    "model": lambda run: run.model or formatting.UNKNOWN,
    "configuration": lambda run: run.config_version or formatting.UNKNOWN,
    "source of the confidence": lambda run: formatting.source(run.confidence_source),
    "what the confidence is": lambda run: formatting.confidence_state(run) or formatting.UNKNOWN,
    "degraded": lambda run: "; ".join(run.degraded_reasons) or "no",
    "label": _feedback,
}
_NUMBERS: Mapping[str, tuple[int, Callable[[Run], float | None]]] = {
    "activation": (3, lambda run: optional(run.route.activation, "value")),
    **{formatting.words(name): (2, _component(name)) for name in COMPONENTS},
    "confidence": (2, lambda run: optional(run, "confidence")),
    "generations": (0, lambda run: run.usage.generations if run.HasField("usage") else None),
    "tokens generated": (0, lambda run: run.usage.completion_tokens if run.HasField("usage") else None),
    "prompt tokens": (0, lambda run: run.usage.prompt_tokens if run.HasField("usage") else None),
    "time [s]": (1, lambda run: run.duration_ms / 1000),
    "first token [s]": (1, lambda run: run.first_token_ms / 1000 if run.HasField("first_token_ms") else None),
}
