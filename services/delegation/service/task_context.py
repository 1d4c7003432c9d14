"""What everything done for one task shares."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np

from chassis.errors import RequestOverLimit
from chassis.prompts import Prompt
from chassis.serving.events import Emit
from configuration.agents import AgentConfig
from inference.spend import Spend
from inference.values import Call, Completion, Delta
from kernel.confidence.rules import Ablation, Rules
from kernel.conversation import Turn
from kernel.errors import MalformedRequest, NoAgents, UnknownAgent
from kernel.prices import Price
from kernel.seeds import derived_seed
from services.delegation.service.values import Event, Parameters

# An answer needs this many tokens at least to be worth keeping them for it [count].
LEAST_KEPT_TOKENS = 32


class TaskStream(Protocol):
    """A text as it is generated."""

    @property
    def completion(self) -> Completion:
        """The whole text and its cost, once the iteration has ended."""

    def __aiter__(self) -> AsyncIterator[Delta]:
        """Pieces of the text."""

    async def aclose(self) -> None:
        """Stop the generation."""


class TaskModelClient(Protocol):
    """A model that speaks for an agent."""

    model: str
    price: Price | None

    async def stream(self, call: Call, spend: Spend) -> TaskStream:
        """The text of one call, as it is generated."""

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """The samples of one call."""


class TaskModelClients(Protocol):
    """Everybody's voice."""

    def of(self, agent: AgentConfig) -> TaskModelClient:
        """Voice of an agent."""

    def assessor(self) -> TaskModelClient:
        """Voice of nobody in particular: classifies and judges."""


@dataclass(slots=True, kw_only=True)
class TaskContext:
    """One task, or one round of self-assessments, under way.

    Attributes:
        question: The question as one text.
        agents: Agents that take part, in the order of the configuration.
        rules: The numbers in force.
        ablations: Parts that are switched off.
        spend: What may be spent.
        voices: Who speaks for whom.
        emit: Tells of an event.
        everybody: All configured agents, those that take no part too.
        seed: Makes calls repeatable; None leaves them to the backends.
        reasons: Why the answer is less than what was asked for.
        digests: Digest of each prompt template used, by its name.
    """

    question: str
    agents: Mapping[str, AgentConfig]
    rules: Rules
    spend: Spend
    voices: TaskModelClients
    emit: Emit[Event]
    everybody: Mapping[str, AgentConfig] = field(default_factory=dict)
    ablations: frozenset[Ablation] = frozenset()
    seed: int | None = None
    reasons: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)

    def seed_of(self, *names: str) -> int | None:
        """Seed of the call that `names` tell; None where none was asked for."""
        return None if self.seed is None else derived_seed(self.seed, *names)

    def chance(self, *names: str) -> np.random.Generator:
        """Chance for what `names` tell: the same for the same seed."""
        seed = self.seed_of(*names)
        return np.random.default_rng(secrets.randbits(64) if seed is None else seed)

    @contextmanager
    def kept_for(self, stage: str, tokens: int) -> Iterator[None]:
        """Keep a generation of `tokens` tokens, or of half of what is left, for `stage` until the block ends."""
        ledger = self.spend.ledger
        affordable = min(tokens, max(LEAST_KEPT_TOKENS, ledger.tokens_left // 2), ledger.tokens_left)
        kept = ledger.reserve(stage, 1, affordable)
        try:
            yield
        finally:
            kept.release()

    def half_the_time(self) -> asyncio.Timeout:
        """Half of the time that is left: what comes before an answer gets no more, so that one can follow."""
        return asyncio.timeout(self.spend.seconds_left() / 2)

    def note(self, prompt: Prompt) -> Prompt:
        """`prompt`, whose digest is remembered."""
        self.digests[prompt.name] = prompt.digest
        return prompt


def speakers(voices: TaskModelClients, agents: Iterable[AgentConfig]) -> list[TaskModelClient]:
    """Everybody who may be asked: the voices of `agents`, and the one that classifies and judges."""
    return [voices.assessor(), *map(voices.of, agents)]


def participants(asked: Sequence[str], configured: Sequence[AgentConfig]) -> dict[str, AgentConfig]:
    """Agents that take part, in the order of the configuration.

    Raises:
        NoAgents: When nobody is configured.
        UnknownAgent: For one that is not.
    """
    known = {agent.id: agent for agent in configured}
    for name in asked:
        known_agent(name, known)
    if not known:
        raise NoAgents("no agents are configured")
    return {name: agent for name, agent in known.items() if not asked or name in asked}


def known_agent(name: str, known: Mapping[str, Any]) -> None:
    """Return if there is an agent of that name.

    Raises:
        UnknownAgent: When there is not.
    """
    if name not in known:
        listed = ", ".join(list(known)[:20])
        raise UnknownAgent(f"agent {name!r} is not configured, or takes no part; there are {listed}", agent=name)


def question_text(question: str, messages: Sequence[Turn], most: int) -> str:
    """The question as one text: a conversation of several turns as its transcript.

    Args:
        question: The question, or nothing.
        messages: A conversation, or nothing.
        most: Characters that it may have [count].

    Raises:
        MalformedRequest: When neither or both are given.
        RequestOverLimit: When it is too long.
    """
    if question.strip() and messages:
        raise MalformedRequest("give either question or messages", field="question")
    turns = [turn for turn in messages if turn.content.strip()]
    text = turns[0].content if len(turns) == 1 else "\n\n".join(f"{turn.role}: {turn.content}" for turn in turns)
    text = text if turns else question
    if not text.strip():
        raise MalformedRequest("give a question, or messages with some text", field="question")
    if len(text) > most:
        said = f"the question has {len(text)} characters; the limit is {most}"
        raise RequestOverLimit(said, field="question", limit=str(most))
    return text


def rules_in_force(asked: Parameters | None, default: Rules) -> Rules:
    """The numbers in force: what the caller asked for, and `default` for what was left out."""
    if asked is None:
        return default
    given = {one.name: getattr(asked, one.name) for one in fields(asked)}
    return replace(default, **{name: item for name, item in given.items() if item is not None})


def chat(system: str, user: str) -> list[dict[str, str]]:
    """Messages of one prompt."""
    head = [{"role": "system", "content": system}] if system else []
    return [*head, {"role": "user", "content": user}]


Agents = Callable[[], Sequence[AgentConfig]]
