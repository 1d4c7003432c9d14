"""A recording as arrays: what each source answered, whether it was right, and the tokens. Pure."""

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt

from evals.recording.calls import DRAFT, OTHER, PROGRAM, REASONED
from evals.recording.values import ItemRecord, RecordedAnswer
from evals.replay.pack import INVALID, Floats, Ints
from evals.replay.stopping import Rule, pattern_of
from kernel.values import value

Flags = npt.NDArray[np.bool_]
# A recorded answer: its source, and which of its answers.
Cell = tuple[str, int]

# The order in which the product asks by default where a draft exists. Its fifth vote would be a second program, of
# which one alone is recorded: the third reasoned answer stands for it.
PRODUCT: Sequence[Cell] = ((DRAFT, 0), (REASONED, 0), (PROGRAM, 0), (REASONED, 1), (REASONED, 2))
WITH_OTHER: Sequence[Cell] = ((DRAFT, 0), (REASONED, 0), (OTHER, 0), (PROGRAM, 0), (REASONED, 1))
REASONED_ONLY: Sequence[Cell] = ((REASONED, 0), (REASONED, 1), (REASONED, 2))


@value
class Votes:
    """Answers in the order in which they are asked for.

    Attributes:
        answers: Number of each answer, shape (items, votes); equal numbers are equal answers, `INVALID` is none.
        right: Whether each was right, same shape.
        tokens: Tokens generated for each [count], same shape.
    """

    answers: Ints
    right: Flags
    tokens: Floats


@value
class Played:
    """What a rule makes of the answers, item by item, in the mean over the orders.

    Attributes:
        right: Share of the orders in which the winner is right [0..1].
        votes: Votes that were asked for [count].
        tokens: Tokens generated for them [count].
    """

    right: Floats
    votes: Floats
    tokens: Floats


def complete(items: Sequence[ItemRecord], sources: Sequence[str]) -> Sequence[ItemRecord]:
    """The items of which all these sources have an answer recorded, readable or not."""
    return [item for item in items if all(item.answers.get(source) for source in sources)]


def orders_of(items: Sequence[ItemRecord], order: Sequence[Cell]) -> Sequence[Votes]:
    """The answers in one order; answers of one source are exchangeable, so that every order of them is taken."""
    many = max((place + 1 for source, place in order if source == REASONED), default=1)
    recorded = min((len(item.answers.get(REASONED, ())) for item in items), default=0)
    picks = list(permutations(range(max(recorded, many)), many))
    return [_votes(items, [(source, pick[at] if source == REASONED else at) for source, at in order]) for pick in picks]


def _votes(items: Sequence[ItemRecord], cells: Sequence[Cell]) -> Votes:
    rows = [[_answer(item, cell) for cell in cells] for item in items]
    return Votes(
        answers=np.array([_numbered(row) for row in rows], dtype=np.int64).reshape(len(items), len(cells)),
        right=np.array([[one.right for one in row] for row in rows], dtype=np.bool_).reshape(len(items), len(cells)),
        tokens=np.array([[one.tokens or 0 for one in row] for row in rows], dtype=np.float64).reshape(
            len(items), len(cells)
        ),
    )


def _answer(item: ItemRecord, cell: Cell) -> RecordedAnswer:
    source, place = cell
    return item.answers[source][place]


def _numbered(row: Sequence[RecordedAnswer]) -> Sequence[int]:
    numbers: dict[str, int] = {}
    return [INVALID if one.answer is None else numbers.setdefault(one.answer, len(numbers)) for one in row]


def played(rule: Rule, orders: Sequence[Votes]) -> Played:
    """What `rule` makes of the answers."""
    items = len(orders[0].answers)
    right, votes, tokens = np.zeros(items), np.zeros(items), np.zeros(items)
    for order in orders:
        for at, numbers in enumerate(order.answers.tolist()):
            winner, used = rule(pattern_of(numbers))
            right[at] += 0.0 if winner is None else order.right[at, winner]
            votes[at] += used
            tokens[at] += order.tokens[at, :used].sum()
    return Played(right=right / len(orders), votes=votes / len(orders), tokens=tokens / len(orders))


def differs(items: Sequence[ItemRecord], source: str, places: Sequence[int]) -> Mapping[int, Floats]:
    """Whether an answer of `source` differs from the System 1 answer [0 or 1], by its place; unreadable ones differ."""
    return {
        place: np.array(
            [
                float(
                    item.answers[DRAFT][0].answer is None
                    or item.answers[DRAFT][0].answer != item.answers[source][place].answer
                )
                for item in items
            ]
        )
        for place in places
    }
