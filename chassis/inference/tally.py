"""Adding up what a stream cost while it passes by."""

from collections.abc import Mapping

from chassis.inference.counting import estimated_tokens
from chassis.inference.fields import count, mapping, mappings
from kernel.envelope import StageUsage


class Tally:
    """What one stream has cost so far.

    vLLM ends a stream with one usage chunk for all choices, llama.cpp sends one for each choice when that choice ends;
    both have no choices in them, and adding them up is right for both. Usage beside choices is a running total.

    Args:
        samples: Choices asked for [count, >= 1].
        prompt_characters: Length of the prompt, for a backend that does not count it.
    """

    def __init__(self, samples: int, prompt_characters: int) -> None:
        self.samples = samples
        self._prompt_characters = prompt_characters
        self._pieces = 0
        self._prompt: int | None = None
        self._reported = 0
        self._running: int | None = None

    def piece(self) -> None:
        """A piece of text passed by: one token at least."""
        self._pieces += 1

    def usage_in(self, chunk: Mapping[str, object]) -> bool:
        """Take over the usage in `chunk`; tell whether it holds nothing else."""
        usage = mapping(chunk.get("usage"))
        completion = count(usage.get("completion_tokens"))
        if completion is None:
            return False
        prompt = count(usage.get("prompt_tokens"))
        self._prompt = prompt if prompt is not None else self._prompt
        alone = not mappings(chunk.get("choices"))
        if alone:
            self._reported += completion
        else:
            self._running = completion
        return alone

    @property
    def nothing_known(self) -> bool:
        """Whether neither a piece nor usage has come."""
        return not (self._pieces or self._reported or self._running)

    def cost(self) -> StageUsage:
        """What has been seen, without HTTP calls; estimated where the backend had not reported it (yet)."""
        reported = self._reported or self._running
        prompt = estimated_tokens(self._prompt_characters) if self._prompt is None else self._prompt
        return StageUsage(
            generations=self.samples,
            prompt_tokens=prompt,
            completion_tokens=max(reported or 0, 0 if self._reported else self._pieces),
            estimated=self._prompt is None or reported is None,
        )
