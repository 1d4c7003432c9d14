"""This module separates the reasoning of a model from its answer.

Servers with a reasoning parser send it in a field of its own; the others leave it in the text, between tags.
"""

from collections.abc import Mapping

from inference.json_fields import text_of
from kernel.values import value

OPEN, CLOSE = "<think>", "</think>"
# Text that is held back at the beginning, where blanks may precede the tag [characters].
MOST_HELD = 1000


@value
class SplitText:
    """A split text holds reasoning and answer."""

    reasoning: str
    text: str


def reasoning_field(message: Mapping[str, object]) -> str:
    """Return the reasoning that `message` (or the delta of one) carries in a field of its own."""
    return text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))


def split_text(content: str) -> SplitText:
    r"""Return `content` without the reasoning it starts with.

    A chat template may have put the opening tag into the prompt: then only the closing one is there. Reasoning that
    was cut off before its closing tag leaves no answer.

    Example:
        >>> split_text("<think>2+2 is 4</think>\n\nFour.")
        SplitText(reasoning='2+2 is 4', text='Four.')
        >>> split_text("2+2 is 4</think>Four.").text
        'Four.'
        >>> split_text("<think>hm").text
        ''
    """
    head, closed, tail = content.partition(CLOSE)
    opened = head.lstrip().startswith(OPEN)
    if not opened and (not closed or OPEN in head):
        return SplitText(reasoning="", text=content)
    return SplitText(reasoning=head.lstrip().removeprefix(OPEN).strip(), text=tail.lstrip())


def split_reasoning(content: str) -> tuple[str, str]:
    r"""Return reasoning and answer of a message's whole content, as `split_text` finds them.

    Example:
        >>> split_reasoning("<think>2+2 is 4</think>\n\nFour.")
        ('2+2 is 4', 'Four.')
    """
    parts = split_text(content)
    return parts.reasoning, parts.text


class ReasoningSplitter:
    """A splitter separates a text while it streams in; it holds text back that could still be part of a tag."""

    def __init__(self) -> None:
        self._held = ""
        self._state = self._before

    def feed(self, piece: str) -> SplitText:
        """Return the part of `piece`, and of the text held back, that is known to be reasoning or answer."""
        self._held += piece
        return self._state()

    def finish(self) -> SplitText:
        """Return the text that was held back until the end."""
        held, self._held = self._held, ""
        if self._state == self._within:
            return SplitText(reasoning=held, text="")
        return SplitText(reasoning="", text=held)

    def _before(self) -> SplitText:
        start = self._held.lstrip()
        if OPEN.startswith(start) and len(self._held) < MOST_HELD:
            return SplitText(reasoning="", text="")
        if start.startswith(OPEN):
            self._held = start.removeprefix(OPEN)
            self._state = self._within
        else:
            self._state = self._after
        return self._state()

    def _within(self) -> SplitText:
        thought, closed, rest = self._held.partition(CLOSE)
        if not closed:
            keep = _overlap(self._held, CLOSE)
            thought, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
            return SplitText(reasoning=thought, text="")
        self._held = rest
        self._state = self._between
        return SplitText(reasoning=thought, text=self._state().text)

    def _between(self) -> SplitText:
        self._held = self._held.lstrip()
        if self._held:
            self._state = self._after
            return self._after()
        return SplitText(reasoning="", text="")

    def _after(self) -> SplitText:
        held, self._held = self._held, ""
        return SplitText(reasoning="", text=held)


def _overlap(content: str, tag: str) -> int:
    """Return the length of the longest end of `content` that `tag` starts with."""
    return next((size for size in range(len(tag) - 1, 0, -1) if content.endswith(tag[:size])), 0)
