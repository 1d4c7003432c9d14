"""This module adds up what a stream costs while it is read."""

from collections.abc import Mapping
from contextlib import ExitStack

from inference.accounting.accounts import CallAccount
from inference.accounting.counting import estimated_tokens
from inference.accounting.reports import CallReport
from inference.json_fields import object_of, objects_of, tokens_of
from kernel.envelope import StageUsage


class StreamTally:
    """A stream tally counts what one stream has cost so far.

    vLLM ends a stream with one usage chunk for all choices, llama.cpp sends one for each choice when that choice ends;
    both have no choices in them, and adding them up is right for both. Usage beside choices is a running total.

    Args:
        samples: Choices requested [count, >= 1].
        prompt_characters: Length of the prompt, for a backend that does not count it.
    """

    def __init__(self, samples: int, prompt_characters: int) -> None:
        self.samples = samples
        self._prompt_characters = prompt_characters
        self._pieces = 0
        self._prompt: int | None = None
        self._reported = 0
        self._running: int | None = None

    def count_piece(self) -> None:
        """Count a piece of text: one token at least."""
        self._pieces += 1

    def add_usage(self, chunk: Mapping[str, object]) -> bool:
        """Add the usage in `chunk`; return whether the chunk holds nothing else."""
        usage = object_of(chunk.get("usage"))
        completion = tokens_of(usage.get("completion_tokens"))
        if completion is None:
            return False
        prompt = tokens_of(usage.get("prompt_tokens"))
        self._prompt = prompt if prompt is not None else self._prompt
        alone = not objects_of(chunk.get("choices"))
        if alone:
            self._reported += completion
        else:
            self._running = completion
        return alone

    @property
    def is_empty(self) -> bool:
        """Return whether neither a piece nor usage was received."""
        return not (self._pieces or self._reported or self._running)

    def cost(self) -> StageUsage:
        """Return what has been seen, without HTTP calls; estimated where the backend had not reported it (yet)."""
        reported = self._reported or self._running
        prompt = estimated_tokens(self._prompt_characters) if self._prompt is None else self._prompt
        return StageUsage(
            generations=self.samples,
            prompt_tokens=prompt,
            completion_tokens=max(reported or 0, 0 if self._reported else self._pieces),
            estimated=self._prompt is None or reported is None,
        )


class StreamMeter:
    """A stream meter is the account of one streamed call; `settle` it at a good end, `close` it in any case.

    Args:
        account: Its reservation.
        tally: Counts what is read.
        report: Receives at the end what was spent, and the error if there was one.
    """

    def __init__(self, account: CallAccount, tally: StreamTally, report: CallReport) -> None:
        self.account = account
        self.tally = tally
        self.exchange = account.exchange(tally.samples)
        self._report = report
        self._settled = False
        self._open = ExitStack()
        self._open.enter_context(account)
        self._open.enter_context(self.exchange)

    @property
    def usage(self) -> StageUsage:
        """Return what has been seen so far, HTTP calls included."""
        return self.exchange.usage if self._settled else self.exchange.usage_with(self.tally.cost())

    def settle(self) -> StageUsage:
        """Take the tally as the cost, and return it with its HTTP calls."""
        self._settled = True
        self.exchange.record_usage(self.tally.cost())
        return self.exchange.usage

    def close(self, error: BaseException | None) -> None:
        """Book what is known, count as lost what is not, and report. No-op once closed."""
        if not self._settled and not self.tally.is_empty:
            self.exchange.record_usage(self.tally.cost())
        usage = self.exchange.usage
        self._open.close()
        self._report.end(usage, error or (None if self._settled else GeneratorExit()))
