"""A decision is kept while a conversation goes on with the same task.

The whole conversation comes with each turn, so the turn before is known by the digest of everything up to the user's
turn before this one. Decisions are held in memory, by this process alone: another replica, or this one after a restart,
assesses the turn anew, and so does everything that is in doubt.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from chassis.rest import dumps
from kernel.envelope import Usage
from kernel.values import value
from services.router.core.task_change import keeps, turned
from services.router.service.subject import Subject
from services.router.service.values import Routed

KEPT = "kept"
# Reasons of decisions that rest on a measured state, and so may be kept.
MEASURED = frozenset({"activation", "policy", KEPT})

Key = tuple[str, bytes]


@value
class Held:
    """A decision and what became of it.

    Attributes:
        routed: The decision, as it was made.
        run_id: Run that it was made for.
        began: When [s, monotonic].
        first: Place of the turn that it was made for.
        turns: Turns it was kept for since [count].
    """

    routed: Routed
    run_id: str
    began: float
    first: int
    turns: int = 0


class KeptDecisions:
    """The last decisions by conversation, the least recently used dropped first.

    Args:
        most_turns: Turns that a decision is kept for at most [count].
        max_age_s: Time that it is kept for at most [s].
        most: Decisions held [count].
        clock: Monotonic clock [s].
    """

    def __init__(
        self,
        *,
        most_turns: int = 4,
        max_age_s: float = 900.0,
        most: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_turns = most_turns
        self._max_age_s = max_age_s
        self._most = most
        self._clock = clock
        self._held: OrderedDict[Key, Held] = OrderedDict()

    def earlier(self, subject: Subject) -> Routed | None:
        """The decision of the turn before, as this turn's own, if the task is clearly still the same."""
        held = self._before(subject)
        if held is None or held.turns >= self._most_turns or self._clock() - held.began > self._max_age_s:
            return None
        since = subject.messages[held.first : -1]
        asked = [turn.content for turn in since if turn.role == "user"]
        answered = [turn.content for turn in since if turn.role == "assistant"]
        if not asked or not keeps(turned(subject.messages[-1].content, asked, answered), held.routed.system):
            return None
        return replace(
            held.routed,
            because=KEPT,
            kept_from=held.run_id,
            assessor="",
            prompt_digests={},
            usage=Usage(),
            duration_ms=0.0,
        )

    def remember(self, subject: Subject, routed: Routed, run_id: str) -> None:
        """Hold what was decided for `subject`, if it rests on a measured state."""
        if not run_id or routed.because not in MEASURED or routed.activation is None or routed.activation.value is None:
            return
        bare = replace(routed, draft="", samples=())
        held = Held(routed=bare, run_id=run_id, began=self._clock(), first=len(subject.messages) - 1)
        if routed.because == KEPT:
            before = self._before(subject)
            if before is None:
                return
            held = replace(before, turns=before.turns + 1)
        self._held[_key(subject, len(subject.messages))] = held
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def _before(self, subject: Subject) -> Held | None:
        length = _turn_before(subject)
        if not length:
            return None
        key = _key(subject, length)
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)


def _turn_before(subject: Subject) -> int:
    """Turns of the request before this one [count]: all before the last answer; 0 when this is no next turn of text."""
    *said, last = subject.messages
    if last.role != "user" or (subject.chat and not isinstance(subject.chat[-1].get("content"), str)):
        return 0
    answers = 0
    for turn in reversed(said):
        if turn.role != "assistant":
            break
        answers += 1
    length = len(said) - answers
    return length if answers and length and said[length - 1].role == "user" else 0


def _key(subject: Subject, length: int) -> Key:
    """Name of the first `length` turns, as the client sent them, among those of one API key."""
    turns: Sequence[Any] = subject.chat or subject.messages
    return subject.key_name, sha256(dumps(list(turns[:length]))).digest()
