"""A text is cut into chunks that an encoder can read, at the ends of paragraphs and sentences where possible.

No part is lost: each chunk starts where the one before ends, or earlier.
"""

import re
from collections.abc import Iterator

from kernel.values import value

# The places where a text is cut, from the best kind to the worst; a cut comes after the match.
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_LINE = re.compile(r"\n\s*")
_SENTENCE = re.compile(r"[.!?\u2026]['\"\u2019\u201d)\]]*\s+|[\u3002\uff01\uff1f]\s*")  # \u3002...: full-width stops
_WORD = re.compile(r"\s+")
_CUTS = (_PARAGRAPH, _LINE, _SENTENCE, _WORD)
# The best places for a chunk to start within what it shares with the one before.
_STARTS = (_SENTENCE, _WORD)


@value
class Span:
    """A span is part of a text, from `start` up to but not including `end` [characters]."""

    start: int
    end: int


def spans(text: str, *, most: int, overlap: int) -> Iterator[Span]:
    """Yield parts of `text` that cover it, in order.

    Args:
        text: The text.
        most: Length of a part at most [characters, >= 1].
        overlap: Length at most that a part shares with the one before [characters, >= 0, < most]; as much of it as
            starts with a sentence, or at least with a word.

    Raises:
        ValueError: For sizes out of range.

    Source:
        Ours (papers.md 1.1).

    Example:
        >>> text = "One is one. Two is two. Three is three."
        >>> [text[span.start : span.end] for span in spans(text, most=30, overlap=12)]
        ['One is one. Two is two. ', 'Two is two. Three is three.']
    """
    if most < 1 or not 0 <= overlap < most:
        raise ValueError(f"chunks of {most} characters cannot share {overlap}")
    start = 0
    while start < len(text):
        end = _end(text, start, most, overlap)
        yield Span(start=start, end=end)
        if end == len(text):
            return
        start = _next_start(text, end, overlap)


def _end(text: str, start: int, most: int, overlap: int) -> int:
    """Return the end of the part that begins at `start`: past its half, and past what the next part may share."""
    furthest = start + most
    if furthest >= len(text):
        return len(text)
    soonest = start + max((most + 1) // 2, overlap + 1)
    for kind in _CUTS:
        places = [found.end() for found in kind.finditer(text, soonest - 1, furthest) if found.end() >= soonest]
        if places:
            return places[-1]
    return furthest


def _next_start(text: str, end: int, overlap: int) -> int:
    """Return the start of the next part: the first good place of the last `overlap` characters before `end`.

    Without one it is `end`, since the rest of a word has no meaning; in a text without words it is the earliest place.
    """
    soonest = end - overlap
    if soonest == end:
        return end
    for kind in _STARTS:
        found = kind.search(text, max(0, soonest - 1), end)
        if found is not None and found.end() < end:
            return max(soonest, found.end())
    return end if _WORD.search(text, soonest, end) else soonest
