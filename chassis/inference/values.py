"""What goes into a call to a backend and what comes out."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Generic, TypeVar

from chassis.inference.checks import checked_call
from kernel.envelope import StageUsage
from kernel.errors import MetacogError
from kernel.values import value

T = TypeVar("T")

# Temperatures below this are greedy to vLLM.
GREEDY_BELOW = 1e-5


class Work(StrEnum):
    """A kind of work; each has a pool of its own on each backend, so that none starves another."""

    ASSESS = "ASSESS"
    SYSTEM_ONE = "SYSTEM_ONE"
    STAGE = "STAGE"


@value
class Call:
    """One prompt, and how often and how it is to be continued.

    Attributes:
        messages: The chat, as OpenAI has it; at least one, each with a role.
        max_tokens: Tokens that each sample may have, reasoning included [count, >= 1].
        stage: Whose account the usage goes to.
        work: Whose pool the call waits in.
        samples: Samples to draw [count, >= 1]. Greedy ones are equal: they are drawn once and count once.
        temperature: 0 (greedy) .. 2 [dimensionless].
        top_p: Share of the probability mass sampled from [0 < p <= 1]; None leaves it to the backend.
        seed: Makes the samples repeatable on one backend [>= 0].
        stop: Texts that end a sample, none of them empty.
        schema: JSON schema that the text is to follow.
        logprobs: Whether the samples carry the log-probability of each token.
        top_logprobs: Alternatives reported for each token [count, 0..20]; needs `logprobs`.
        thinking: Switches a thinking model's reasoning on or off; None leaves it to the backend.
        extra: Further fields of the request, passed on as they are; none that the client sets itself.
        floor_tokens: Where the envelope is short, `max_tokens` is cut down to this and no further [1..max_tokens].

    Raises:
        InvalidCall: On construction, naming the field.
    """

    messages: Sequence[Mapping[str, object]]
    max_tokens: int
    stage: str
    work: Work
    samples: int = 1
    temperature: float = 0.0
    top_p: float | None = None
    seed: int | None = None
    stop: Sequence[str] = ()
    schema: Mapping[str, object] | None = None
    logprobs: bool = False
    top_logprobs: int = 0
    thinking: bool | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    floor_tokens: int = 1

    def __post_init__(self) -> None:
        checked_call(self)

    @property
    def drawn(self) -> int:
        """Samples that a backend has to draw [count, >= 1]: one where all would be equal."""
        return 1 if self.temperature < GREEDY_BELOW else self.samples


@value
class Alternative:
    """A token that might have stood in a place, with its log-probability [nats, <= 0]."""

    token: str
    logprob: float


@value
class TokenLogprob:
    """A token as it was sampled, its log-probability [nats, <= 0], and the likeliest tokens in its place."""

    token: str
    logprob: float
    top: tuple[Alternative, ...] = ()


@value
class Sample:
    """One continuation.

    Attributes:
        text: The answer, without reasoning.
        reasoning: What the model thought before it answered; empty where it did not, or the backend hides it.
        finish_reason: Why it ended, as the backend says: `stop`, `length`, `tool_calls`, ...
        tokens: Tokens generated, reasoning included [count, >= 0].
        logprobs: One per token; None if not asked for, or if the backend has none.
        tool_calls: OpenAI's tool calls.
    """

    text: str
    reasoning: str = ""
    finish_reason: str = "stop"
    tokens: int = 0
    logprobs: tuple[TokenLogprob, ...] | None = None
    tool_calls: tuple[Mapping[str, object], ...] = ()


@value
class Completion:
    """What a call has brought.

    Attributes:
        samples: As many as were asked for, unless there is a `shortfall`; at least one.
        usage: What it cost, all HTTP calls together.
        model: The model that answered, as the backend names it.
        cut: Whether the envelope left each sample fewer tokens than `max_tokens`; one that then ended with `length` was
            ended by the envelope.
        shortfall: Why samples are missing (a deadline in the middle of a large draw); None if none is.
    """

    samples: tuple[Sample, ...]
    usage: StageUsage
    model: str
    cut: bool = False
    shortfall: MetacogError | None = None


@value
class Delta:
    """A piece of a streamed sample; `finish_reason` is set on the last."""

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    index: int = 0


@value
class Structured(Generic[T]):
    """Samples read as JSON.

    Attributes:
        values: One per sample that could be read; at least one.
        completion: The samples themselves.
        clamped: Paths of numbers that lay outside the schema's bounds and were moved to them, as `0.confidence`.
        rejected: Why the other samples could not be read.
    """

    values: tuple[T, ...]
    completion: Completion
    clamped: tuple[str, ...] = ()
    rejected: tuple[MetacogError, ...] = ()


@value
class Reply:
    """A backend's answer to a forwarded request.

    Attributes:
        body: Its bytes; our own where several requests drew the samples.
        document: The same, parsed.
        usage: What it cost, all HTTP calls together.
        cut: Whether the envelope left each sample fewer tokens than the request allowed; a request without a limit
            allows the backend's `default_max_tokens`, or half its context.
    """

    body: bytes
    document: Mapping[str, object]
    usage: StageUsage
    cut: bool = False


@value
class StreamEvent:
    """One event of a forwarded stream.

    Attributes:
        raw: The event as it came, with the blank line that ends it; `sse.parsed` reads it.
        document: The event parsed, where it had to be: the end of a choice and usage; None elsewhere.
        done: Whether this is the `[DONE]` that ends the stream.
    """

    raw: bytes
    document: Mapping[str, object] | None = None
    done: bool = False


@value
class ModelInfo:
    """A model that a backend serves.

    Attributes:
        id: Name as listed.
        context_tokens: Its context [tokens]; None where the backend does not say.
        aliases: Further names that the backend lists for it.
        owner: Who serves it, as the backend says; empty where it does not.
    """

    id: str
    context_tokens: int | None = None
    aliases: tuple[str, ...] = ()
    owner: str = ""

    def answers_to(self, name: str) -> bool:
        """Whether a request may call it `name`: Ollama adds a tag to the names it lists, providers a prefix."""
        return name in (self.id, *self.aliases) or self.id == f"{name}:latest" or self.id == f"models/{name}"
