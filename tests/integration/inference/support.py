"""What the tests of the inference client share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from inference.accounting.reports import CallEnd
from inference.backend_client import Backend
from inference.http.timing import Timing
from inference.spend import Spend
from inference.streaming.forwarding import ForwardedStream
from inference.streaming.sample_stream import SampleStream
from inference.values import Call, StreamEvent, WorkKind
from kernel.envelope import Limits
from tests.support.models.scripted_llm import ScriptedLLM

HELLO = [{"role": "user", "content": "Say hello."}]
CALL = Call(messages=HELLO, max_tokens=8, stage="thesis", work=WorkKind.STAGE)

MakeBackend = Callable[..., Backend]


@dataclass(frozen=True)
class Served:
    """A server under the client; `script` is its double's script, None where it is real."""

    url: str
    model: str
    script: ScriptedLLM | None = None


@dataclass
class Noted:
    """An observer that keeps what it is told."""

    ends: list[CallEnd] = field(default_factory=list)

    def on_call_end(self, end: CallEnd) -> None:
        self.ends.append(end)


@dataclass
class Patience:
    """Time that passes only by sleeping; what was slept is kept."""

    now: float = 1000.0
    slept: tuple[float, ...] = ()

    async def sleep(self, seconds: float) -> None:
        self.slept += (seconds,)
        self.now += seconds

    @property
    def timing(self) -> Timing:
        return Timing(clock=lambda: self.now, sleep=self.sleep, random_number=lambda: 0.5)


def spend_of(
    generations: int = 100, tokens: int = 10_000, timeout_ms: int = 60_000, cost: float | None = None
) -> Spend:
    """An envelope that is large unless said otherwise, and not limited in cost."""
    return Spend(Limits(max_generations=generations, max_generated_tokens=tokens, timeout_ms=timeout_ms, max_cost=cost))


def call_of(**changes: object) -> Call:
    """`CALL` with `changes`."""
    return replace(CALL, **changes)  # type: ignore[arg-type]


async def read_stream(opening: Awaitable[SampleStream], seen: list[str] | None = None) -> SampleStream:
    """The stream that `opening` gives, read to its end; its texts go into `seen` as they come."""
    async with await opening as stream:
        async for delta in stream:
            if seen is not None:
                seen.append(delta.text)
    return stream


async def read_forwarded(opening: Awaitable[ForwardedStream]) -> list[StreamEvent]:
    """The events of the stream that `opening` gives, to their end."""
    async with await opening as stream:
        return [event async for event in stream]
