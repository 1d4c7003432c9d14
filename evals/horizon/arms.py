"""The arms of a long-horizon evaluation: one request for each step, which sees what the step before has left. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from evals.harness.arms import Arm, Call, Replies
from evals.harness.item_records import introduction
from evals.harness.replies import texts
from evals.horizon.tasks import Lock, read_state
from evals.items import Item
from evals.records import Record
from evals.strategies import ROLES, VARIANTS, limited, named
from kernel.answers import AnswerType, extract
from kernel.policy import Strategy
from kernel.values import value

SYSTEM_ONE, SAME = Strategy.SYSTEM_ONE.value, "self-consistency"
# The whole task in one request.
AT_ONCE = "at-once"
CHAT = "/v1/chat/completions"


def step_arm(strategy: str, number: int) -> str:
    """Return the name of the arm of one step.

    Example:
        >>> step_arm("vote", 3)
        'vote@3'
    """
    return f"{strategy}@{number}"


def step_of(arm: str) -> tuple[str, int]:
    """Return strategy and step of an arm; step 0 of one that has no steps.

    Example:
        >>> step_of("vote@3"), step_of("at-once")
        (('vote', 3), ('at-once', 0))
    """
    strategy, _, number = arm.partition("@")
    return strategy, int(number or 0)


def arms(locks: Sequence[Lock], strategy: str, max_tokens: int = 0, *, equal_compute: bool = True) -> Sequence[Arm]:
    """Return the arms: the whole task at once, and each step by System 1, by `strategy` and by self-consistency.

    Args:
        locks: The tasks.
        strategy: What deliberates at each step.
        max_tokens: Tokens of each text [count]; 0: the services' own limits.
        equal_compute: Whether self-consistency gets at each step what the strategy has spent there.
    """
    by_id = {lock.item.id: lock for lock in locks}
    longest = max(len(lock.steps) for lock in locks)
    made = [Arm(name=AT_ONCE, call=named(SYSTEM_ONE).call, settings={"model": f"metacog/{SYSTEM_ONE}"})]
    for number in range(1, longest + 1):
        made.append(_step(by_id, SYSTEM_ONE, named(SYSTEM_ONE), number))
        made.append(_step(by_id, strategy, named(strategy), number))
        if equal_compute:
            alike = named(SAME, like=step_arm(strategy, number))
            made.append(_step(by_id, SAME, alike, number))
    return [limited(arm, max_tokens) for arm in made]


def introduced(by_id: Mapping[str, Lock], item: Item, prompt: str) -> Record:
    """Return the record of a task, with its steps."""
    lock = by_id[item.id]
    steps = [[step.kind, step.first, step.second] for step in lock.steps]
    return {**introduction(item, prompt), "start": lock.start, "steps": steps}


def answer_text(strategy: str, reply: Mapping[str, Any]) -> str:
    """Return the text of a strategy's reply that its answer is read off."""
    path = "/v1/deliberations" if strategy in ROLES else "/v1/arbitrations" if strategy in VARIANTS else CHAT
    return texts(path, reply)["answer"]


def state_after(shown: str, text: str) -> str:
    """Return what a text says that the lock shows; what it showed before where the text cannot be read.

    Example:
        >>> state_after("4972", "Final Answer: 83"), state_after("4972", "I cannot tell.")
        ('0083', '4972')
    """
    return read_state(extract(text, AnswerType.NUMBER), len(shown)) or shown


@value
class _Step:
    """The requests for one step of every task that is so long, by one strategy.

    Attributes:
        by_id: The tasks by name.
        strategy: The strategy.
        inner: Its arm, for one question.
        number: The step [1..].
    """

    by_id: Mapping[str, Lock]
    strategy: str
    inner: Arm
    number: int

    def call(self, item: Item, seed: int, replies: Replies) -> Call | None:
        """Return the request for the step; None where the task has no such step, or one before it has no reply."""
        lock = self.by_id[item.id]
        shown = _before(lock, self.strategy, self.number, replies) if self.number <= len(lock.steps) else None
        return None if shown is None else self.inner.call(lock.step_item(self.number, shown), seed, replies)


def _step(by_id: Mapping[str, Lock], strategy: str, inner: Arm, number: int) -> Arm:
    step = _Step(by_id=by_id, strategy=strategy, inner=inner, number=number)
    return Arm(name=step_arm(strategy, number), call=step.call, settings=inner.settings)


def _before(lock: Lock, strategy: str, number: int, replies: Replies) -> str | None:
    """Return what the lock shows before a step, as the strategy believes; None where a step before has no reply."""
    shown = lock.start
    for earlier in range(1, number):
        reply = replies.get(step_arm(strategy, earlier))
        if not reply:
            return None
        shown = state_after(shown, answer_text(strategy, reply))
    return shown
