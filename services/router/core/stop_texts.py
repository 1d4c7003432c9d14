"""Stop texts end an answer, which may come in pieces.

`stop` is that of OpenAI's chat completions: the answer ends before the first of these texts.
"""

from collections.abc import Sequence


class StopFilter:
    """A stop filter passes text until one of the `stops` begins.

    What may be the beginning of one is held back until that is certain.

    Args:
        stops: Texts that end the answer; empty ones end nothing.

    Attributes:
        stopped: Whether one of them came.

    Example:
        >>> filter = StopFilter(["END"])
        >>> [filter.passed("one E"), filter.passed("N two EN"), filter.passed("D three"), filter.rest(), filter.stopped]
        ['one ', 'EN two ', '', '', True]
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.stopped = False

    def passed(self, text: str) -> str:
        """Return what passes of `text`, with what was held back before."""
        if self.stopped:
            return ""
        self._held += text
        before = before_stop(self._held, self._stops)
        if before is not None:
            self.stopped = True
            self._held = ""
            return before
        free = len(self._held) - _longest_beginning(self._held, self._stops)
        passed, self._held = self._held[:free], self._held[free:]
        return passed

    def rest(self) -> str:
        """Return what is still held back when no more text comes."""
        rest, self._held = self._held, ""
        return rest


def before_stop(text: str, stops: Sequence[str]) -> str | None:
    """Return the part of `text` before the first of the `stops`; None if it contains none.

    Example:
        >>> before_stop("a, b; c", [";", ","]), before_stop("a b", [";"]), before_stop("a b", [""])
        ('a', None, None)
    """
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else None


def _longest_beginning(text: str, stops: Sequence[str]) -> int:
    """Return the length of the longest end of `text` with which one of the `stops` begins [count]."""
    longest = max((len(stop) for stop in stops), default=1) - 1
    return next(
        (length for length in range(min(longest, len(text)), 0, -1) if _begins(stops, text[-length:])),
        0,
    )


def _begins(stops: Sequence[str], end: str) -> bool:
    return any(stop.startswith(end) for stop in stops)
