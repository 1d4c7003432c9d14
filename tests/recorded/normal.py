"""Normalising takes out of a response what differs from one run of the same program to the next, and nothing else.

Replaced are: identifiers that a service made (by the request in whose response they first appeared), times,
durations, ports, temporary folders, the checkout's own folder, digests and page tokens. Text that comes in pieces is
joined, and events that come while others are under way are kept apart, sorted.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Numbers under these keys are durations or times.
DURATIONS = frozenset({"duration_ms", "first_token_ms", "embedding_ms", "retrieval_ms", "retry_after_s", "created"})
# Texts under these keys are handed back as they are, and mean nothing in themselves.
TOKENS = frozenset({"next_page_token"})
# Events of a stream that others overtake, because they report on work that is done beside the main one.
UNORDERED = frozenset({
    "agent_assessed", "stage_measured", "samples_drawn", "critique_finished", "agent_answered", "knowledge_progress",
})  # fmt: skip
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
PATTERNS: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r"localhost:\d+"), "localhost:<port>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r"\brun-[0-9a-f]{40}\b"), "run-<digest>"),  # made from the run's identifier
    (re.compile(r"\bbatch_req_[0-9a-f]{12}"), "batch_req_<digest>"),
    (re.compile(r"\b(assessing had|tried again in) \d+(\.\d+)?"), r"\1 <duration>"),
)
# In what the command line prints, besides.
PRINTED: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r" *\b\d+(\.\d+)? (ms|s)\b"), " <duration>"),
    (re.compile(r" *\b\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?\b"), " <time>"),
)


@dataclass
class Normaliser:
    """Normalises responses in the order in which they come.

    Attributes:
        folders: What stands for the path of a folder.
        durations: Keys of numbers that are durations.
        tokens: Keys of texts that mean nothing.
        unordered: Names of events that others overtake.
        named: What stands for an identifier, once it has appeared.
    """

    folders: Mapping[str, str]
    durations: frozenset[str] = DURATIONS
    tokens: frozenset[str] = TOKENS
    unordered: frozenset[str] = UNORDERED
    named: dict[str, str] = field(default_factory=dict)

    def __call__(self, asked: str, response: Any) -> Any:  # noqa: ANN401 - a JSON document
        """`response` to the request `asked`, normalised."""
        new = sorted({found for found in UUID.findall(json.dumps(response)) if found not in self.named})
        for place, identifier in enumerate(new, start=1):
            self.named[identifier] = f"<{asked}/{place}>"
        return self._normal(response, "")

    def printed(self, text: str) -> str:
        """What the command line printed, without durations and times."""
        made = text
        for pattern, instead in PRINTED:
            made = pattern.sub(instead, made)
        return "\n".join(line.rstrip() for line in made.splitlines())

    def stream(self, events: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        """A stream of events: those in order, with pieces of text joined, and those that others overtake, sorted."""
        ordered: list[list[Any]] = []
        for name, data in events:
            if _name(name, data) in self.unordered:
                continue
            if ordered and ordered[-1][0] == name and (joined := _joined(ordered[-1][1], data)) is not None:
                ordered[-1][1] = joined
            else:
                ordered.append([name, data])
        overtaken = [[name, data] for name, data in events if _name(name, data) in self.unordered]
        return {"events": ordered, "unordered": overtaken}

    def sorted(self, stream: dict[str, Any]) -> dict[str, Any]:
        """A normalised stream with what others overtake in an order of its own."""
        return {**stream, "unordered": sorted(stream["unordered"], key=canonical)}

    def _normal(self, found: Any, key: str) -> Any:  # noqa: ANN401 - a JSON document
        if isinstance(found, dict):
            return {self._text(name, ""): self._normal(each, name) for name, each in found.items()}
        if isinstance(found, list):
            return [self._normal(each, key) for each in found]
        if isinstance(found, str):
            return self._text(found, key)
        if key in self.durations and isinstance(found, int | float) and not isinstance(found, bool):
            return "<duration>"
        return found

    def _text(self, text: str, key: str) -> str:
        if key in self.durations and re.fullmatch(r"\d+(\.\d+)?", text):
            return "<duration>"
        if key in self.tokens:
            return "<token>" if text else ""
        for folder, instead in self.folders.items():
            text = text.replace(folder, instead)
        text = UUID.sub(lambda found: self.named.get(found[0], found[0]), text)
        for pattern, instead in PATTERNS:
            text = pattern.sub(instead, text)
        return text


def _name(name: str, data: Any) -> str:  # noqa: ANN401 - a JSON document
    """The name of an event, or of the one inside a chunk of a chat completion."""
    inside = data.get("metacog") if isinstance(data, dict) and not name else None
    return str(inside["event"]) if isinstance(inside, dict) and "event" in inside else name


def canonical(found: Any) -> str:  # noqa: ANN401 - a JSON document
    """A text that is equal for equal documents."""
    return json.dumps(found, sort_keys=True, ensure_ascii=False)


def _joined(earlier: Any, later: Any) -> Any:  # noqa: ANN401 - JSON documents
    """Two events as one, where they differ in a piece of text only; else None."""
    for place in (_token, _delta):
        before, after = place(earlier), place(later)
        if before is None or after is None:
            continue
        without = [canonical(cut(each)) for each, (_, cut, _) in ((earlier, before), (later, after))]
        if without[0] == without[1]:
            return before[2](earlier, before[0] + after[0])
    return None


Piece = tuple[str, Callable[[Any], Any], Callable[[Any, str], Any]]


def _token(data: Any) -> Piece | None:  # noqa: ANN401 - a JSON document
    """The piece of text in an event that is a piece of text."""
    if not isinstance(data, dict) or not isinstance(data.get("text"), str) or not set(data) <= {"text", "stage"}:
        return None
    return data["text"], lambda one: {**one, "text": ""}, lambda one, text: {**one, "text": text}


def _delta(data: Any) -> Piece | None:  # noqa: ANN401 - a JSON document
    """The piece of text in a chunk of a chat completion."""
    if not isinstance(data, dict) or len(data.get("choices") or ()) != 1:
        return None
    delta = data["choices"][0].get("delta") or {}
    if set(delta) != {"content"} or not isinstance(delta["content"], str):
        return None

    def put(one: Any, text: str) -> Any:  # noqa: ANN401 - a JSON document
        return {**one, "choices": [{**one["choices"][0], "delta": {"content": text}}]}

    return delta["content"], lambda one: put(one, ""), put
