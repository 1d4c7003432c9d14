"""A sample stream is read while the sample is being generated."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import TracebackType
from typing import Self

from inference.accounting.stream_cost import StreamMeter
from inference.http import event_parser
from inference.http.open_stream import OpenStream
from inference.json_fields import object_of, objects_of, parse_object, text_of
from inference.sampling.reasoning import ReasoningSplitter, SplitText, reasoning_field, split_text
from inference.sampling.replies import token_logprobs
from inference.sampling.sampler import without_unrequested
from inference.values import Completion, CompletionSample, Delta, TokenLogprob
from kernel.envelope import StageUsage


class SampleStream:
    """A sample stream is an async context that is iterated for its deltas; then `completion` is there.

    Leaving the context early aborts the generation, and books what had been seen of it. Tool calls are not assembled.

    Args:
        top_logprobs: Alternatives that the caller requested for each token; None: no log-probabilities.
        stream: The reply.
        meter: What it costs.
    """

    def __init__(self, top_logprobs: int | None, stream: OpenStream, meter: StreamMeter) -> None:
        self._top_logprobs = top_logprobs
        self._stream = stream
        self._meter = meter
        self._splitter = ReasoningSplitter()
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._logprobs: list[TokenLogprob] | None = None
        self._model = ""
        self._finish_reason: str | None = None
        self._completion: Completion | None = None
        self._deltas = self._read()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose(error)

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self._deltas

    @property
    def completion(self) -> Completion:
        """Return the whole sample and what it cost.

        Raises:
            RuntimeError: When the stream was not read to its end.
        """
        if self._completion is None:
            raise RuntimeError("the completion is there only when the stream has been read to its end")
        return self._completion

    @property
    def usage(self) -> StageUsage:
        """Return what has been seen so far; once closed, `completion` has it."""
        return self._meter.usage

    async def aclose(self, error: BaseException | None = None) -> None:
        """Give back what is held; if the stream has not ended, abort it. `error` is the reason, for the observer."""
        try:
            await self._deltas.aclose()
            await self._stream.aclose()
        finally:
            self._meter.close(error)

    async def _read(self) -> AsyncGenerator[Delta, None]:
        async for event in self._stream.events():
            if event.data is not None and event.data != event_parser.DONE:
                for delta in self._deltas_of(parse_object(event.data)):
                    yield delta
        if self._finish_reason is None:
            raise self._stream.interrupted("it ended before the sample did")
        rest = self._splitter.finish()
        yield Delta(text=rest.text, reasoning=rest.reasoning, finish_reason=self._finish_reason)
        self._completion = self._completed()

    def _deltas_of(self, chunk: Mapping[str, object]) -> list[Delta]:
        self._model = text_of(chunk.get("model")) or self._model
        self._meter.tally.add_usage(chunk)
        found = []
        for choice in objects_of(chunk.get("choices"))[:1]:
            parts = self._parts(choice)
            self._finish_reason = text_of(choice.get("finish_reason")) or self._finish_reason
            if parts.text or parts.reasoning:
                found.append(Delta(text=parts.text, reasoning=parts.reasoning))
        return found

    def _parts(self, choice: Mapping[str, object]) -> SplitText:
        """Return what `choice` adds, as far as it is known to be reasoning or answer."""
        delta = object_of(choice.get("delta"))
        content, reasoning = text_of(delta.get("content")), reasoning_field(delta)
        if content or reasoning:
            self._meter.tally.count_piece()
        self._content.append(content)
        self._reasoning.append(reasoning)
        logprobs = token_logprobs(choice.get("logprobs"))
        if logprobs is not None:
            self._logprobs = self._logprobs or []
            self._logprobs.extend(logprobs)
        parts = self._splitter.feed(content)
        return SplitText(reasoning=reasoning + parts.reasoning, text=parts.text)

    def _completed(self) -> Completion:
        cost = self._meter.settle()
        content, reasoning = "".join(self._content), "".join(self._reasoning)
        parts = SplitText(reasoning=reasoning, text=content) if reasoning else split_text(content)
        sample = CompletionSample(
            text=parts.text,
            reasoning=parts.reasoning,
            finish_reason=self._finish_reason or "stop",
            tokens=cost.completion_tokens,
            logprobs=None if self._logprobs is None else tuple(self._logprobs),
        )
        return Completion(
            samples=(without_unrequested(sample, self._top_logprobs),),
            usage=cost,
            model=self._model,
            cut=self._meter.account.cut,
        )
