"""Claims are the sentences of a text, with the numbers and the arithmetic in them.

Source: MC-MAS Eq. 12, Table 3 (papers.md 2.2): claims are sentences. The line with the final answer states no claim: it
is the answer. Sentences are cut by `sentencex`, whose rules for English know abbreviations and the stops of other
scripts; numbers are read as those of answers.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import sentencex  # type: ignore[import-not-found,import-untyped,unused-ignore]
from numpy.typing import NDArray

from kernel.answers.numbers import rational, spelled
from kernel.thresholds import DECIMALS
from kernel.values import value

MOST_CLAIMS = 64
MOST_CHARACTERS = 1_000
# Characters that are cut into sentences at a time: the splitter's time grows with their square in some scripts.
PIECE_CHARACTERS = 8_000
# A word that is longer may be cut.
LONGEST_WORD = 1_000

_FINAL = re.compile(r"^[\s>#*_`~-]*(?:the\s+|my\s+)?final\s+answer[\s*_`]*(?:is\s*)?[:\uff1a].*$", re.IGNORECASE)
_MARKER = re.compile(r"^\s*(?:[-*+>#]+\s+|\(?\d{1,2}[.)]\s+|step\s+\d{1,2}\s*[:.]\s*)+", re.IGNORECASE)
# A numeral is taken whole, with all its separators, or what stands behind one of them would be another number.
_NUMERAL = r"(?<![\w.])(?<!\d,)\d+(?:[.,]\d+)*"
# With its sign where no term stands before it; a unit may be attached (12.5kg), an ordinal is no number (3rd).
_NUMBER = re.compile(rf"(?:(?<![^\s(])(?<!\d\s)-)?{_NUMERAL}(?:/\d+)?(?!\d|[.,]\d|(?:st|nd|rd|th)\b)", re.ASCII)
_OPERATOR = r"\s*(?:[-+*/^=]|\\times|\\cdot|\\div)\s*"
_ARITHMETIC = re.compile(rf"(?<![\w.])(?<!\d,)\(*{_NUMERAL}\)*(?:{_OPERATOR}\(*{_NUMERAL}\)*)+", re.ASCII)
_SIGNS = str.maketrans({"\u00d7": "*", "·": "*", "⋅": "*", "÷": "/", "\u2212": "-", "\u2013": "-"})
_LATEX = (("\\times", "*"), ("\\cdot", "*"), ("\\div", "/"))


@value
class Claim:
    """A claim is a sentence, with its numbers and its arithmetic.

    Attributes:
        text: The sentence.
        numbers: Its numbers in canonical form.
        expressions: Its arithmetic, without spaces and equality signs.
    """

    text: str
    numbers: frozenset[str]
    expressions: frozenset[str]


def claims(text: str) -> tuple[Claim, ...]:
    r"""Return the claims of `text`, at most `MOST_CLAIMS`.

    Example:
        >>> [claim.text for claim in claims("1. Six boxes hold 7 each. So 6 x 7 = 42.\n\nFinal Answer: 42")]
        ['Six boxes hold 7 each.', 'So 6 x 7 = 42.']
    """
    found: list[Claim] = []
    for line in text.splitlines():
        if _FINAL.match(line[:200]):
            continue
        for sentence in _sentences(_MARKER.sub("", line)):
            if len(found) == MOST_CLAIMS:
                return tuple(found)
            bare = sentence.strip()[:MOST_CHARACTERS]
            if sum(map(str.isalnum, bare)) > 1:
                found.append(_claim(bare))
    return tuple(found)


def _sentences(line: str) -> Iterator[str]:
    """Yield the sentences of a line; a line longer than `PIECE_CHARACTERS` is cut there too, between words."""
    while len(line) > PIECE_CHARACTERS:
        between_words = line.rfind(" ", PIECE_CHARACTERS - LONGEST_WORD, PIECE_CHARACTERS)
        end = PIECE_CHARACTERS if between_words < 0 else between_words
        yield from _segments(line[:end])
        line = line[end:]
    yield from _segments(line)


def _segments(piece: str) -> Sequence[str]:
    """Return the sentences of a piece; the piece as a whole where the splitter fails on it.

    The splitter takes a white space for one byte, and no lone surrogate; both are replaced before.
    """
    plain = "".join(" " if character.isspace() else character for character in piece)
    try:
        found: list[str] = sentencex.segment("en", plain.encode(errors="replace").decode())
    except BaseException as error:  # what a panic in Rust becomes derives from nothing narrower
        if type(error).__name__ != "PanicException":
            raise
        return [plain]
    return found


def _claim(text: str) -> Claim:
    plain = text.translate(_SIGNS)
    plain = re.sub(r"(?<=\d)\s*[xX]\s*(?=\d)", "*", plain)
    numbers = map(_canonical, _NUMBER.findall(plain))
    return Claim(
        text=text,
        numbers=frozenset(number for number in numbers if number is not None),
        expressions=frozenset(side for found in _ARITHMETIC.findall(plain) for side in _sides(found)),
    )


def _canonical(token: str) -> str | None:
    """Return the canonical form of a numeral; plain digits need no reading, and most are."""
    if token.isascii() and token.isdigit():
        return token.lstrip("0") or "0"
    number = rational(token)
    return None if number is None else spelled(number)


def _sides(arithmetic: str) -> list[str]:
    """Return the sides of an equation that calculate something, without spaces, numerals in canonical form."""
    for command, sign in _LATEX:
        arithmetic = arithmetic.replace(command, sign)
    plain = re.sub(_NUMERAL, lambda numeral: _canonical(numeral[0]) or numeral[0], arithmetic, flags=re.ASCII)
    sides = re.sub(r"\s", "", plain).split("=")
    return [_bare(side) for side in sides if re.search(r"\d\)*[-+*/^]\(*\d", side)]


def _bare(side: str) -> str:
    """Return `side` without brackets that close nowhere."""
    while side.count("(") > side.count(")") and "(" in side:
        side = side.replace("(", "", 1)
    while side.count(")") > side.count("("):
        side = side[: side.rindex(")")] + side[side.rindex(")") + 1 :]
    return side


Vectors = NDArray[np.float32] | NDArray[np.float64]


@value
class ClaimShares:
    """These shares relate the claims of the final stage to those of the solvers.

    Attributes:
        novelty: Share whose similarity to every solver claim is below the threshold [0..1]; None without a claim, and
            without a solver claim.
        symbolic: Share that traces to a solver claim by equal numbers or arithmetic [0..1].
        semantic: Share that traces by similarity only [0..1].
        untraced: Share that does not trace [0..1]; the three sum to 1.
        redundancy: Mean cosine over all pairs of claims [-1..1]; None with fewer than two claims.
        critique_novelty: Novelty of the critiques' claims [0..1]; None without one.
    """

    novelty: float | None
    symbolic: float | None
    semantic: float | None
    untraced: float | None
    redundancy: float | None
    critique_novelty: float | None


@value
class EmbeddedClaims:
    """This value holds the claims of one stage with their unit vectors, one row a claim.

    Attributes:
        claims: The claims.
        vectors: Their unit vectors [shape (claims, dimensions)].
    """

    claims: Sequence[Claim]
    vectors: Vectors


def claim_shares(
    solvers: EmbeddedClaims, critiques: EmbeddedClaims, final: EmbeddedClaims, *, below: float, everything: Vectors
) -> ClaimShares:
    """Return the embedding measures of one question.

    Args:
        solvers: Claims of the solvers' representative traces.
        critiques: Claims of the critiques.
        final: Claims of the final stage.
        below: Similarity below which a claim is novel [-1..1].
        everything: Unit vectors of all claims, one for each occurrence [shape (n, dimensions)].
    """
    nearest = nearest_cosines(final.vectors, solvers.vectors)
    novel = is_below(nearest, below)
    symbolic = np.array([traces_by_symbols(claim, solvers.claims) for claim in final.claims], dtype=bool)
    known = len(final.claims) > 0 and len(solvers.claims) > 0
    shares = _shares(symbolic, novel) if known else (None, None, None)
    return ClaimShares(
        novelty=float(novel.mean()) if known else None,
        symbolic=shares[0],
        semantic=shares[1],
        untraced=shares[2],
        redundancy=redundancy(everything),
        critique_novelty=_novelty(critiques, solvers, below),
    )


def nearest_cosines(of: Vectors, among: Vectors) -> NDArray[np.float64]:
    """Return for each vector the largest cosine to any of `among` [-1..1]; -inf where there is none.

    Vectors are unit vectors.

    Args:
        of: Unit vectors [shape (n, dimensions)].
        among: Those that they are compared with [shape (m, dimensions)].

    Example:
        >>> nearest_cosines(np.eye(2), np.array([[0.6, 0.8]])).tolist()
        [0.6, 0.8]
    """
    if not len(of) or not len(among):
        return np.full(len(of), -np.inf)
    nearest: NDArray[np.float64] = (np.asarray(of, dtype=float) @ np.asarray(among, dtype=float).T).max(axis=1)
    return nearest


def is_below(cosines: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Return whether each cosine is below the threshold, both rounded to 1e-9.

    Args:
        cosines: Cosines of any shape [-1..1, or -inf where there is none].
        threshold: Similarity below which a claim is novel [-1..1].

    Returns:
        For each cosine whether it is below [same shape].
    """
    below: NDArray[np.bool_] = np.round(cosines, DECIMALS) < round(threshold, DECIMALS)
    return below


def redundancy(vectors: Vectors) -> float | None:
    """Return the mean cosine over all pairs of unit vectors [-1..1]; None with fewer than two.

    The squared length of their sum holds each pair twice and each vector once with itself.

    Args:
        vectors: One vector for each claim [shape (claims, dimensions), length 1].

    Example:
        >>> redundancy(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])) == 1 / 3
        True
    """
    count = len(vectors)
    if count < 2:
        return None
    total = np.asarray(vectors, dtype=float).sum(axis=0)
    itself = float((np.asarray(vectors, dtype=float) ** 2).sum())
    return (float(total @ total) - itself) / (count * (count - 1))


def traces_by_symbols(claim: Claim, solver_claims: Sequence[Claim]) -> bool:
    """Return whether the claim's numbers all stand in one solver claim, or an arithmetic expression of it does.

    A claim without numbers traces by no symbols.
    """
    if not claim.numbers:
        return False
    return any(claim.numbers <= other.numbers or claim.expressions & other.expressions for other in solver_claims)


def _shares(symbolic: NDArray[np.bool_], novel: NDArray[np.bool_]) -> tuple[float, float, float]:
    count = len(symbolic)
    semantic = int((~symbolic & ~novel).sum())
    untraced = int((~symbolic & novel).sum())
    return (count - semantic - untraced) / count, semantic / count, untraced / count


def _novelty(of: EmbeddedClaims, solvers: EmbeddedClaims, below: float) -> float | None:
    if not of.claims or not solvers.claims:
        return None
    return float(is_below(nearest_cosines(of.vectors, solvers.vectors), below).mean())
