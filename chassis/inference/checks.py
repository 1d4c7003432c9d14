"""What is checked before anything is sent, since not every backend checks it (llama.cpp answers 200 to all of it)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chassis.inference.errors import InvalidCall

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from chassis.inference.values import Call

MAX_TEMPERATURE = 2.0
MAX_TOP_LOGPROBS = 20
MAX_SEED = 2**63 - 1
# Of one forwarded request, as OpenAI has it.
MAX_SAMPLES = 128

# Servers' own names for more samples or tokens (llama.cpp, vLLM): with them a request would escape its envelope.
ESCAPES = frozenset({"n_predict", "n_cmpl", "best_of"})
# The client sets these itself.
RESERVED = ESCAPES | {
    "model",
    "messages",
    "n",
    "seed",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
}


def checked_call(call: "Call") -> None:
    """Raise `InvalidCall` for the first field of `call` that is outside its range."""
    check_messages(call.messages)
    check_sampling(call.temperature, call.top_p)
    _within("samples", call.samples, 1)
    _within("max_tokens", call.max_tokens, 1)
    _within("floor_tokens", call.floor_tokens, 1, call.max_tokens)
    _within("top_logprobs", call.top_logprobs, 0, MAX_TOP_LOGPROBS if call.logprobs else 0)
    if call.seed is not None:
        _within("seed", call.seed, 0, MAX_SEED)
    if not all(call.stop):
        raise InvalidCall("stop", "an empty text would stop every sample at once")
    if taken := sorted(RESERVED & call.extra.keys()):
        raise InvalidCall("extra", f"{', '.join(taken)} cannot be overridden")


def checked_body(body: Mapping[str, object]) -> None:
    """Raise `InvalidCall` for the first sampling field of a forwarded request that is outside its range."""
    messages = body.get("messages")
    check_messages(messages if isinstance(messages, list) else ())
    check_sampling(body.get("temperature"), body.get("top_p"))
    if taken := sorted(ESCAPES & body.keys()):
        raise InvalidCall(taken[0], "n and max_tokens say how much may be generated")
    for name, most in (("n", MAX_SAMPLES), ("max_tokens", None), ("max_completion_tokens", None)):
        count = body.get(name)
        if count is not None:
            _within(name, count, 1, most)


def check_messages(messages: Sequence[object]) -> None:
    """Raise `InvalidCall` unless there is a message and each has a role."""
    if not messages:
        raise InvalidCall("messages", "there must be at least one")
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if not isinstance(role, str) or not role:
            raise InvalidCall(f"messages[{number}]", "it must be an object with a role")


def check_sampling(temperature: object, top_p: object) -> None:
    """Raise `InvalidCall` unless `temperature` is in [0, 2] and `top_p` in (0, 1], each unless None."""
    if temperature is not None and not (_is_number(temperature) and 0.0 <= temperature <= MAX_TEMPERATURE):
        raise InvalidCall("temperature", f"{temperature} must be a number in [0, {MAX_TEMPERATURE:g}]")
    if top_p is not None and not (_is_number(top_p) and 0.0 < top_p <= 1.0):
        raise InvalidCall("top_p", f"{top_p} must be a number in (0, 1]")


def _is_number(value: object) -> "TypeIs[float]":
    return isinstance(value, int | float) and not isinstance(value, bool)


def _within(name: str, count: object, least: int, most: int | None = None) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < least or (most is not None and count > most):
        limit = f"at least {least}" if most is None else f"in [{least}, {most}]"
        raise InvalidCall(name, f"{count} must be a whole number, {limit}")
