"""This module defines calls and completions, and checks them, since not every backend does."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

from inference.errors import InvalidCall
from kernel.envelope import StageUsage
from kernel.errors import MetacogError
from kernel.values import value

if TYPE_CHECKING:
    from typing_extensions import TypeIs


MAX_TEMPERATURE = 2.0
MAX_TOP_LOGPROBS = 20
MAX_SEED = 2**63 - 1
# Of one forwarded request, as OpenAI has it.
MAX_SAMPLES = 128

# Servers' own names for more samples or tokens (llama.cpp, vLLM): with them a request would escape its envelope.
LIMIT_ALIASES = frozenset({"n_predict", "n_cmpl", "best_of"})
# Fields that the client sets itself.
RESERVED = LIMIT_ALIASES | {
    "model",
    "messages",
    "n",
    "seed",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
}


def check_role(place: int, role: object) -> None:
    """Raise `InvalidCall` unless the message at `place` has a role."""
    if not isinstance(role, str) or not role:
        raise InvalidCall(f"messages[{place}]", "it must be an object with a role")


def check_sampling(temperature: object, top_p: object) -> None:
    """Raise `InvalidCall` unless `temperature` is in [0, 2] and `top_p` in (0, 1], each unless None."""
    if temperature is not None and not (_is_number(temperature) and 0.0 <= temperature <= MAX_TEMPERATURE):
        raise InvalidCall("temperature", f"{temperature} must be a number in [0, {MAX_TEMPERATURE:g}]")
    if top_p is not None and not (_is_number(top_p) and 0.0 < top_p <= 1.0):
        raise InvalidCall("top_p", f"{top_p} must be a number in (0, 1]")


def _is_number(value: object) -> "TypeIs[float]":
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_count(name: str, count: object, least: int, most: int | None = None) -> None:
    """Raise `InvalidCall` unless `count` is a whole number from `least` to `most`."""
    if not isinstance(count, int) or isinstance(count, bool) or count < least or (most is not None and count > most):
        limit = f"at least {least}" if most is None else f"in [{least}, {most}]"
        raise InvalidCall(name, f"{count} must be a whole number, {limit}")


T = TypeVar("T")

# Temperatures below this are greedy to vLLM.
GREEDY_BELOW = 1e-5


class WorkKind(StrEnum):
    """Each kind of work has a pool of its own on each backend, so that none starves another."""

    ASSESS = "ASSESS"
    SYSTEM_ONE = "SYSTEM_ONE"
    STAGE = "STAGE"


@value
class Call:
    """A call is one prompt, with the number of its samples and how they are drawn.

    Attributes:
        messages: The chat, as OpenAI has it; at least one, each with a role.
        max_tokens: Tokens that each sample may have, reasoning included [count, >= 1].
        stage: Name under which the usage is booked.
        work: Kind of work, and so the pool.
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
    work: WorkKind
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
        if not self.messages:
            raise InvalidCall("messages", "there must be at least one")
        for place, message in enumerate(self.messages):
            check_role(place, message.get("role") if isinstance(message, Mapping) else None)
        check_sampling(self.temperature, self.top_p)
        check_count("samples", self.samples, 1)
        check_count("max_tokens", self.max_tokens, 1)
        check_count("floor_tokens", self.floor_tokens, 1, self.max_tokens)
        check_count("top_logprobs", self.top_logprobs, 0, MAX_TOP_LOGPROBS if self.logprobs else 0)
        if self.seed is not None:
            check_count("seed", self.seed, 0, MAX_SEED)
        if not all(self.stop):
            raise InvalidCall("stop", "an empty text would stop every sample at once")
        if taken := sorted(RESERVED & self.extra.keys()):
            raise InvalidCall("extra", f"{', '.join(taken)} cannot be overridden")

    @property
    def drawn(self) -> int:
        """Return the samples that a backend has to draw [count, >= 1]: one where all would be equal."""
        return 1 if self.temperature < GREEDY_BELOW else self.samples


@value
class Alternative:
    """An alternative is a likely token in a place, with its log-probability [nats, <= 0]."""

    token: str
    logprob: float


@value
class TokenLogprob:
    """A sampled token has its log-probability [nats, <= 0] and the likeliest tokens in its place."""

    token: str
    logprob: float
    top: tuple[Alternative, ...] = ()


@value
class CompletionSample:
    """A completion sample is one continuation of the prompt.

    Attributes:
        text: The answer, without reasoning.
        reasoning: Text before the answer; empty where there is none, or the backend hides it.
        finish_reason: Why it ended, as the backend reports: `stop`, `length`, `tool_calls`, ...
        tokens: Tokens generated, reasoning included [count, >= 0].
        logprobs: One per token; None if not requested, or if the backend has none.
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
    """A completion holds the samples of a call.

    Attributes:
        samples: As many as were requested, unless there is a `shortfall`; at least one.
        usage: What it cost, all HTTP calls together.
        model: The model that answered, as the backend names it.
        cut: Whether the envelope left each sample fewer tokens than `max_tokens`; one that then ended with `length` was
            ended by the envelope.
        shortfall: Why samples are missing (a deadline in the middle of a large draw); None if none is.
    """

    samples: tuple[CompletionSample, ...]
    usage: StageUsage
    model: str
    cut: bool = False
    shortfall: MetacogError | None = None


@value
class Delta:
    """A delta is a piece of a streamed sample; `finish_reason` is set on the last."""

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    index: int = 0


@value
class Structured(Generic[T]):
    """Structured samples were read as JSON.

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
    """A reply is a backend's answer to a forwarded request.

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
class Place:
    """A place is where a server takes one kind of request.

    Attributes:
        path: Path, with a slash before it.
        at_root: Whether it is below the server's root, and not below the root of its API.
    """

    path: str
    at_root: bool = False

    @property
    def operation(self) -> str:
        """Return what a server does there: OpenTelemetry's name where it has one, else the last part of the path."""
        return OPERATIONS.get(self.path) or self.path.rpartition("/")[2]


# Operations that OpenTelemetry's conventions for generative AI name.
OPERATIONS = {"/chat/completions": "chat", "/completions": "text_completion", "/embeddings": "embeddings"}

CHAT = Place(path="/chat/completions")


@value
class PassedCall:
    """A passed call is a request to another place of a server than its chat completions, as the caller wrote it.

    Attributes:
        place: Where the server takes it.
        body: The request.
        samples: Texts that the server generates for it [count, >= 0].
        tokens: Tokens that each of them may have [count, >= 1].
        characters: Length of what the model reads [count, >= 0]; None where no model reads it.
        usage: Whether the caller wants the usage of a stream.
    """

    place: Place
    body: Mapping[str, object]
    samples: int = 0
    tokens: int = 1
    characters: int | None = None
    usage: bool = False


@value
class StreamEvent:
    """A stream event is one event of a forwarded stream.

    Attributes:
        raw: The event as it received, with the blank line that ends it; `sse.parsed` reads it.
        document: The event parsed, where it had to be: the end of a choice and usage; None elsewhere.
        done: Whether this is the `[DONE]` that ends the stream.
    """

    raw: bytes
    document: Mapping[str, object] | None = None
    done: bool = False


@value
class ModelInfo:
    """A model info describes a model that a backend serves.

    Attributes:
        id: Name as listed.
        context_tokens: Its context [tokens]; None where the backend does not list it.
        aliases: Further names that the backend lists for it.
        owner: Who serves it, as the backend reports; empty where it does not.
    """

    id: str
    context_tokens: int | None = None
    aliases: tuple[str, ...] = ()
    owner: str = ""

    def answers_to(self, name: str) -> bool:
        """Return whether a request may call it `name`: Ollama adds a tag to the names it lists, providers a prefix."""
        return name in (self.id, *self.aliases) or self.id == f"{name}:latest" or self.id == f"models/{name}"
