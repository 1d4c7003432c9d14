"""This module reads yes and no, and the words that stand for them."""

import re

from kernel.answers.wrapping import unwrapped

TRUE, FALSE = "true", "false"
_TRUTH = {"yes": TRUE, "true": TRUE, "y": TRUE, "t": TRUE, "no": FALSE, "false": FALSE, "n": FALSE, "f": FALSE}
_OPENING = re.compile(
    r"(yes|no|true|false|[ytnf]$)(?:$|[.,;:!—\u2013]|\s+[-—\u2013]|\s+(?:it|he|she|they|this|that|there|because|since)\b)"
)
# A second truth later on: "true or false", "yes and no", "Yes. No, wait".
_LATER = re.compile(r"(?:[.,;:!?/—\u2013-]\s*|\b(?:or|and|but)\s+)(yes|no|true|false)\b")
# Only the start of a longer text is looked at.
_LONGEST_OPENING = 2_000

# Where the type of an answer is unknown, "No." is one, and "No. 5" and "True Grit" are not.
_UNTYPED_OPENING = re.compile(
    r"\W*(yes|no|true|false)\b(?=\W*$|\s*[,;:!]|\s*\.(?!\s?\d)|\s+[-\u2013\u2014(]"
    r"|\s+(?:because|since|as|it|he|she|they|this|that|there|we|you|i)\b)",
    re.IGNORECASE,
)
_CLOSING = re.compile(r"\b(not\s+)?(yes|no|true|false)\W*$", re.IGNORECASE)


def truth(text: str) -> str | None:
    """Return `true` or `false` for an answer of type BOOLEAN; None for no truth, or for two that differ.

    Example:
        >>> truth("Yes."), truth("No, it is not."), truth("Yes and no"), truth("Maybe")
        ('true', 'false', None, None)
    """
    bare = unwrapped(text[:_LONGEST_OPENING]).casefold()
    opening = _OPENING.match(bare)
    if opening is None:
        return None
    first = _TRUTH[opening[1]]
    later = _LATER.findall(bare, opening.end(1))
    return first if all(_TRUTH[word] == first for word in later) else None


def opening_truth(text: str) -> str | None:
    """Return the word for a truth that opens a text of unknown type, as it is written; None where none does.

    The rule differs from that of `truth`: a text that is not known to answer yes or no needs clearer signs (a number
    after "No." is none), and a later word does not take the first one back.

    Example:
        >>> opening_truth("No. It never was."), opening_truth("No. 5"), opening_truth("True Grit")
        ('No', None, None)
    """
    opening = _UNTYPED_OPENING.match(text)
    return opening[1] if opening else None


def closing_truth(text: str) -> str | None:
    """Return the truth that closes a text, turned round after "not"; None where none does.

    Example:
        >>> closing_truth("The statement is not true."), closing_truth("It rained.")
        ('false', None)
    """
    closing = _CLOSING.search(text)
    if closing is None:
        return None
    last = truth(closing[2])
    return ({TRUE: FALSE, FALSE: TRUE}[last] if closing[1] else last) if last is not None else None
