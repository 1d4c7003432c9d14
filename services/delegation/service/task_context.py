"""All steps of one task share its context; its agents and its question are checked here."""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

import numpy as np

from chassis.errors import RequestOverLimit
from chassis.prompts import Prompt
from chassis.serving.events import Emit
from configuration.agents import AgentConfig
from inference import ModelClient, ModelClients, Spend
from kernel.confidence.rules import Ablation, Rules
from kernel.conversation import Turn, question_text
from kernel.envelope import DEFAULT_CEILINGS, Ceilings, Limits
from kernel.learning.profiles import Profile
from kernel.seeds import derived_seed
from services.delegation.core.routine import Routine
from services.delegation.service.values import DimensionClassifier, Event, Parameters

# An answer needs this many tokens at least to be worth a reservation [count].
MIN_RESERVED_TOKENS = 32

Agents = Callable[[], Sequence[AgentConfig]]


class ProfileLookup(Protocol):
    """This source returns profiles. Every method may raise `DatabaseUnavailable`."""

    async def of(self, agents: Sequence[str], dimensions: Sequence[str]) -> Mapping[str, Sequence[Profile]]:
        """Return profiles of `agents` in `dimensions`, in their order; those that never changed are at their start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDefaults:
    """A request gets these values for what it leaves out.

    Attributes:
        limits: The envelope.
        ceilings: The most that the envelope of a request may have.
        rules: The numbers that decide.
        classifier: How dimensions are found.
        answer_max_tokens: Tokens of an answer [count].
        task_characters: Characters that a task may have [count].
        routine: When a task is routine.
        config_version: Version of all these values.
    """

    limits: Limits
    ceilings: Ceilings = DEFAULT_CEILINGS
    rules: Rules = field(default_factory=Rules)
    classifier: DimensionClassifier = DimensionClassifier.MODEL
    answer_max_tokens: int = 512
    task_characters: int = 100_000
    routine: Routine = field(default_factory=Routine)
    config_version: str = "paper"


@dataclass(slots=True, kw_only=True)
class TaskContext:
    """The context is the state of one task, or of one round of self-assessments, while it runs.

    Attributes:
        question: The question as one text.
        agents: Agents that take part, in the order of the configuration.
        rules: The numbers in force.
        ablations: Parts that are switched off.
        spend: The budget of the request.
        model_clients: Model clients of the agents.
        emit: Sends an event to the caller.
        all_agents: All configured agents, including those that take no part.
        seed: Makes calls repeatable; None leaves them to the backends.
        degraded_reasons: Why the answer is less than what was asked for.
        prompt_digests: Digest of each prompt template used, by its name.
    """

    question: str
    agents: Mapping[str, AgentConfig]
    rules: Rules
    spend: Spend
    model_clients: ModelClients
    emit: Emit[Event]
    all_agents: Mapping[str, AgentConfig] = field(default_factory=dict)
    ablations: frozenset[Ablation] = frozenset()
    seed: int | None = None
    degraded_reasons: list[str] = field(default_factory=list)
    prompt_digests: dict[str, str] = field(default_factory=dict)

    def seed_of(self, *names: str) -> int | None:
        """Return the seed of the call that `names` identify; None when the request has no seed."""
        return None if self.seed is None else derived_seed(self.seed, *names)

    def generator_of(self, *names: str) -> np.random.Generator:
        """Return a random generator for the choice that `names` identify: the same for the same seed."""
        seed = self.seed_of(*names)
        return np.random.default_rng(secrets.randbits(64) if seed is None else seed)

    @contextmanager
    def reserved_for(self, stage: str, tokens: int) -> Iterator[None]:
        """Reserve a generation of `tokens` tokens, or of half of what is left, for `stage` until the block ends."""
        ledger = self.spend.ledger
        affordable = min(tokens, max(MIN_RESERVED_TOKENS, ledger.tokens_left // 2), ledger.tokens_left)
        reservation = ledger.reserve(stage, 1, affordable)
        try:
            yield
        finally:
            reservation.release()

    def half_of_time_left(self) -> asyncio.Timeout:
        """Return a timeout of half of the time that is left, so that an answer can follow."""
        return asyncio.timeout(self.spend.seconds_left() / 2)

    def recorded(self, prompt: Prompt) -> Prompt:
        """Return `prompt` after recording its digest."""
        self.prompt_digests[prompt.name] = prompt.digest
        return prompt


def clients_of(model_clients: ModelClients, agents: Iterable[AgentConfig]) -> list[ModelClient]:
    """Return every client that a task may call: those of `agents`, and the one that classifies and judges."""
    return [model_clients.assessor(), *map(model_clients.of, agents)]


def checked_question(question: str, messages: Sequence[Turn], max_characters: int) -> str:
    """Return the question as one text if it is not too long.

    Args:
        question: The question, or an empty text.
        messages: A conversation, or no turns; turns without text are left out.
        max_characters: Characters that it may have [count].

    Raises:
        MalformedRequest: When neither or both are given.
        RequestOverLimit: When it is too long.
    """
    text = question_text(question, messages)
    if len(text) > max_characters:
        message = f"the question has {len(text)} characters; the limit is {max_characters}"
        raise RequestOverLimit(message, field="question", limit=str(max_characters))
    return text


def rules_in_force(requested: Parameters | None, default: Rules) -> Rules:
    """Return the numbers in force: those of the request, and `default` for what it leaves out."""
    if requested is None:
        return default
    given = {each.name: getattr(requested, each.name) for each in fields(requested)}
    return replace(default, **{name: number for name, number in given.items() if number is not None})
