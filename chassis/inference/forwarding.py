"""A chat completion that is passed on as the caller wrote it, for the gateway's System 1.

Where a backend draws fewer samples in one request than the caller wants, several requests draw them (`merging`). A
stream cannot be put together so: more samples than one request carries are refused.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from chassis.inference import sse
from chassis.inference.accounts import Account
from chassis.inference.bodies import Portion, portion_seed
from chassis.inference.checks import checked_body
from chassis.inference.config import BackendConfig
from chassis.inference.errors import BackendRefused, InvalidCall
from chassis.inference.features import Features, Learned, samples_limit
from chassis.inference.fields import count, document, mapping, mappings
from chassis.inference.meter import Meter
from chassis.inference.opened import Opened
from chassis.inference.values import GREEDY_BELOW, StreamEvent, Work
from kernel.envelope import StageUsage
from kernel.values import value

# Inside a text, a quote is escaped, so these match keys only. Everything else passes unparsed.
_WORTH_PARSING = re.compile(rb'"usage"\s*:\s*\{|"finish_reason"\s*:\s*"')
_PIECE = re.compile(rb'"(?:content|reasoning_content|reasoning|arguments)"\s*:\s*"(?!")')


@value
class Asked:
    """What a request asks for.

    Attributes:
        body: The request as the caller wrote it.
        samples: Its `n` [count, >= 1].
        greedy: Whether all samples would be equal.
        tokens: Tokens for each sample [count, >= 1]; None where it does not say.
        usage: Whether the caller wants the usage of a stream.
    """

    body: Mapping[str, object]
    samples: int
    greedy: bool
    tokens: int | None
    usage: bool

    @property
    def drawn(self) -> int:
        """Samples that a backend has to draw for a whole reply [count, >= 1]: one where all would be equal."""
        return 1 if self.greedy else self.samples

    def tokens_each(self, default: int, context: int | None) -> int:
        """Tokens for each sample; if the request has no limit, `default`, or half of the `context` if that is less."""
        half = (context or 2 * default) // 2
        return self.tokens or max(1, min(default, half))


@value
class Forwarding:
    """A request with its reservation, as a source of samples."""

    wanted: Asked
    account: Account
    config: BackendConfig
    work: Work

    def body(self, portion: Portion, known: Features) -> dict[str, object]:
        """The request as it is sent: for our model, and within the envelope; all other fields as they came.

        A part of the samples has an `n` and a seed of its own.
        """
        body = self.wanted.body
        limit = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
        own = {"stream", "stream_options", "max_tokens", "max_completion_tokens"}
        sent = {name: field for name, field in body.items() if name not in own}
        if self.work in self.config.priorities:
            sent["priority"] = self.config.priorities[self.work]
        sent |= {"model": self.config.model, limit: portion.tokens}
        return sent if portion.samples == self.wanted.samples else _in_part(sent, portion)

    def streamed(self, known: Features) -> dict[str, object]:
        """The request for all samples, streamed and with usage, which our own accounting needs."""
        portion = Portion(offset=0, samples=self.wanted.samples, tokens=self.account.tokens_each)
        options = {**mapping(self.wanted.body.get("stream_options")), "include_usage": True}
        return {**self.body(portion, known), "stream": True, "stream_options": options}

    def asks_logprobs(self, portion: Portion, known: Features) -> bool:
        """As in `Source`: whatever is asked for is for the caller."""
        return False

    def lesson(self, refusal: str) -> Features | None:
        """As in `Source`: of fields that the caller chose, a refusal tells only how many samples may be asked for."""
        limit = samples_limit(refusal)
        return None if limit is None else Features(samples_per_call=limit)


def asked(body: Mapping[str, object]) -> Asked:
    """What `body` asks for.

    Raises:
        InvalidCall: When one of its sampling fields is outside its range.
    """
    checked_body(body)
    return Asked(
        body=body,
        samples=count(body.get("n")) or 1,
        greedy=is_greedy(body.get("temperature")),
        tokens=count(body.get("max_completion_tokens")) or count(body.get("max_tokens")),
        usage=mapping(body.get("stream_options")).get("include_usage") is True,
    )


def is_greedy(temperature: object) -> bool:
    """Whether samples at `temperature` are all equal; None leaves it to the backend."""
    return isinstance(temperature, int | float) and temperature < GREEDY_BELOW


def _in_part(sent: Mapping[str, object], portion: Portion) -> dict[str, object]:
    """`sent` for one part of its samples; a single one is asked for without `n`, which some backends refuse."""
    part = {name: field for name, field in sent.items() if name != "n"}
    if portion.samples > 1:
        part["n"] = portion.samples
    seed = count(sent.get("seed"))
    if seed is not None:
        part["seed"] = portion_seed(seed, portion.offset)
    return part


@contextmanager
def carrying(samples: int, backend: str, learned: Learned) -> Iterator[None]:
    """Refuse to stream more `samples` than one request carries, as is known or as the backend's refusal tells.

    Raises:
        InvalidCall: For `n`.
    """
    check_carried(samples, backend, learned.now.samples_per_call)
    try:
        yield
    except BackendRefused as refused:
        limit = samples_limit(refused.message) if samples > 1 else None
        if limit is not None:
            learned.learn(Features(samples_per_call=limit))
            check_carried(samples, backend, limit)
        raise


def check_carried(samples: int, backend: str, limit: int | None) -> None:
    """Raise `InvalidCall` for `n` if a stream of `samples` is over the `limit` of one request."""
    if limit is not None and samples > limit:
        said = f"backend {backend} draws {limit} in one stream, not {samples}; ask for fewer, or for no stream"
        raise InvalidCall("n", said)


class ForwardedStream:
    """An async context that is iterated for the events of a forwarded stream, as they came.

    The usage chunk that the client did not ask for is left out. Leaving the context early aborts the generation, and
    books what had been seen of it. The iteration ends with `InvalidCall` for `n` where the backend drew fewer samples
    than it was asked for and said nothing.

    Args:
        opened: The reply.
        meter: What it costs.
        wanted: What the request asks for.
        learned: What is known of the backend; learns how many samples it streams.
    """

    def __init__(self, opened: Opened, meter: Meter, wanted: Asked, learned: Learned) -> None:
        self._opened = opened
        self._meter = meter
        self._wanted = wanted
        self._learned = learned
        self._finished: set[object] = set()
        self._events = self._read()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose(error)

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self._events

    @property
    def usage(self) -> StageUsage:
        """What the stream has cost so far; final with the event that is `done`."""
        return self._meter.usage

    @property
    def cut(self) -> bool:
        """Whether the envelope left each sample fewer tokens than the request allowed; known from the beginning.

        A request without a limit allows the backend's `default_max_tokens`, or half its context.
        """
        return self._meter.account.cut

    async def aclose(self, error: BaseException | None = None) -> None:
        """Give back what is held; if the stream has not ended, abort it. `error` is why, for the observer."""
        try:
            await self._events.aclose()
            await self._opened.aclose()
        finally:
            self._meter.close(error)

    async def _read(self) -> AsyncGenerator[StreamEvent, None]:
        async for event in self._opened.events():
            if event.data == sse.DONE:
                self._settle()
                yield StreamEvent(raw=event.raw, done=True)
                return
            if passed := self._passed(event):
                yield passed
        if len(self._finished) < self._wanted.samples:
            raise self._opened.broken("it ended before its samples did")
        self._settle()

    def _settle(self) -> None:
        """Take what came for the cost; raise if it is less than was asked for."""
        came = len(self._finished)
        short = 0 < came < self._wanted.samples
        if short:
            self._meter.tally.samples = came
        self._meter.settle()
        if short:
            self._learned.learn(Features(samples_per_call=came))
            check_carried(self._wanted.samples, self._learned.backend, came)

    def _passed(self, event: sse.Event) -> StreamEvent | None:
        """`event` as it is passed on, and counted; None if it is usage that nobody asked for."""
        if event.data is None:
            return StreamEvent(raw=event.raw)
        if _PIECE.search(event.data):
            self._meter.tally.piece()
        if not _WORTH_PARSING.search(event.data):
            return StreamEvent(raw=event.raw)
        chunk = document(event.data)
        usage_alone = self._meter.tally.usage_in(chunk)
        ended = [choice for choice in mappings(chunk.get("choices")) if choice.get("finish_reason") is not None]
        self._finished.update(count(choice.get("index")) or 0 for choice in ended)
        if usage_alone and not self._wanted.usage:
            return None
        return StreamEvent(raw=event.raw, document=chunk)
