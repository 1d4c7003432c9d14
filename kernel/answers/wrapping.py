r"""This module removes what surrounds an answer and is no part of it: thinking, markdown, LaTeX delimiters.

Everything here is linear in the length of its input and bounded in depth: a model's text is untrusted.
"""

import re

# Characters at the end of a model's text in which an answer is looked for, thinking already taken out.
LONGEST_TEXT = 200_000
# Characters of the longest answer that is one; longer ones have no canonical form.
LONGEST_ANSWER = 20_000

_THINKING = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_BOX = "\\boxed{"
_LAYERS = 12
_PAIRS = (
    ("$$", "$$"),
    ("$", "$"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ('"', '"'),
    ("“", "”"),
    ("\u2018", "\u2019"),
    ("«", "»"),
)
_COMMANDS = ("\\boxed{", "\\fbox{", "\\text{", "\\textbf{", "\\mathrm{", "\\mathbf{", "\\textit{")


def without_thinking(text: str) -> str:
    """Return `text` without the thinking of a model.

    A closing tag alone means that the prompt held the opening one: all before it was thinking. An opening tag alone
    means that the thinking was cut off: all after it is.

    Example:
        >>> without_thinking("<think>Final Answer: 3</think>Final Answer: 4")
        'Final Answer: 4'
        >>> without_thinking("2 + 2 is 4</think>Four."), without_thinking("<think>hm")
        ('Four.', '')
    """
    shown: list[str] = []
    inside, start = False, 0
    for tag in _THINKING.finditer(text):
        closes = bool(tag[1])
        if closes and not inside:
            shown.clear()
        elif not inside:
            shown.append(text[start : tag.start()])
        inside, start = not closes, tag.end()
    return "".join(shown if inside else [*shown, text[start:]])


def boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{}` of `text`; None when there is none, or it is not closed.

    Example:
        >>> boxed(r"so \boxed{1} or rather \boxed{\frac{1}{2}}.")
        '\\frac{1}{2}'
    """
    start = text.rfind(_BOX)
    if start < 0:
        return None
    inside = text[start + len(_BOX) :][:LONGEST_ANSWER]
    end = closing(inside, "{", "}")
    return inside[:end].strip() if end is not None else None


def closing(inside: str, opener: str, closer: str) -> int | None:
    """Return the index in `inside` of the bracket that closes the one just before it.

    Returns:
        Index [0..len - 1]; None where nothing closes it.

    Example:
        >>> closing("a{b}c}d", "{", "}")
        5
    """
    depth = 1
    for index, character in enumerate(inside):
        depth += (character == opener) - (character == closer)
        if depth == 0:
            return index
    return None


def unwrapped(text: str) -> str:
    r"""Return `text` without the markdown, LaTeX delimiters, quotes and trailing period around it.

    Example:
        >>> unwrapped("**`42`**."), unwrapped(r"$\boxed{\text{even}}$"), unwrapped("$5")
        ('42', 'even', '$5')
    """
    for _ in range(_LAYERS):
        inner = _peeled(text.strip().strip("*`").strip())
        if inner == text:
            break
        text = inner
    return text


def _peeled(text: str) -> str:
    if text.endswith(".") and not text.endswith(".."):
        return text[:-1]
    for opener, closer in _PAIRS:
        inside = text[len(opener) : -len(closer)]
        if text.startswith(opener) and text.endswith(closer) and inside and closer not in inside:
            return inside
    return _out_of_command(text)


def _out_of_command(text: str) -> str:
    for command in _COMMANDS:
        inside = text[len(command) :]
        if text.startswith(command) and closing(inside[:LONGEST_ANSWER], "{", "}") == len(inside) - 1:
            return inside[:-1]
    return text
