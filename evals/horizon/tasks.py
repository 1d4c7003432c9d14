"""Generated tasks of many steps: a lock whose dials are turned and swapped, and what it shows in the end. Pure.

Each step is easy, and acts on what the steps before have left: one error spoils the end. The end state is computed.
Source: MC-MAS and MSV name long-horizon tasks as future work; the tasks are ours (papers.md 4.4).
"""

from collections.abc import Sequence
from random import Random

from evals.items import Item
from kernel.answers import AnswerType
from kernel.values import value

TURN, SWAP, ALL, REVERSE = "turn", "swap", "all", "reverse"
KINDS = (TURN, TURN, SWAP, ALL, REVERSE)
ORDINALS = ("1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th")
ASK = "What does the lock show then? Answer with its digits as one number."


@value
class Step:
    """One change of a lock.

    Attributes:
        kind: `turn` one dial, `swap` two, turn `all`, or `reverse` their order.
        first: The dial that is turned, or one of those swapped [1..dials]; 0 where none is.
        second: The other dial, or by how much is turned [1..9]; 0 where neither is.
    """

    kind: str
    first: int = 0
    second: int = 0

    @property
    def instruction(self) -> str:
        """Return the step in words."""
        match self.kind:
            case "turn":
                return f"Turn the {ORDINALS[self.first - 1]} dial up by {self.second}."
            case "swap":
                return f"Swap the digits of the {ORDINALS[self.first - 1]} and the {ORDINALS[self.second - 1]} dial."
            case "all":
                return f"Turn every dial up by {self.second}."
            case _:
                return "Reverse the order of the digits."


@value
class Lock:
    """A task: a lock, and what is done to it.

    Attributes:
        item: The whole task, whose answer is the end state.
        start: What the lock shows at first, one digit for each dial.
        steps: What is done to it, in order.
    """

    item: Item
    start: str
    steps: tuple[Step, ...]

    def step_item(self, number: int, shown: str) -> Item:
        """Return the item of one step.

        Args:
            number: The step [1..].
            shown: What the lock shows before it.
        """
        step = self.steps[number - 1]
        return Item(
            id=f"{self.item.id}@{number}",
            dataset=self.item.dataset,
            question=f"{_rules(shown)} Do this: {step.instruction} {ASK}",
            answer=written(applied(shown, step)),
            answer_type=AnswerType.NUMBER,
            dimension=self.item.dimension,
        )


def applied(shown: str, step: Step) -> str:
    """Return what a lock shows after a step.

    Example:
        >>> applied("4972", Step(kind="turn", first=2, second=3)), applied("4972", Step(kind="swap", first=1, second=4))
        ('4272', '2974')
        >>> applied("4972", Step(kind="all", second=1)), applied("4972", Step(kind="reverse"))
        ('5083', '2794')
    """
    digits = [int(digit) for digit in shown]
    first, second = step.first - 1, step.second - 1
    match step.kind:
        case "turn":
            digits[first] = (digits[first] + step.second) % 10
        case "swap":
            digits[first], digits[second] = digits[second], digits[first]
        case "all":
            digits = [(digit + step.second) % 10 for digit in digits]
        case _:
            digits.reverse()
    return "".join(map(str, digits))


def end_state(start: str, steps: Sequence[Step]) -> str:
    """Return what a lock shows after all steps."""
    shown = start
    for step in steps:
        shown = applied(shown, step)
    return shown


def written(shown: str) -> str:
    """Return what a lock shows as a known answer: a number without leading zeros.

    Example:
        >>> written("0042")
        '42'
    """
    return str(int(shown))


def read_state(answer: str | None, dials: int) -> str | None:
    """Return what an answer says that a lock of so many dials shows; None where it says nothing that such a lock can.

    Example:
        >>> read_state("42", 4), read_state("12345", 4), read_state("-3", 4), read_state("7/2", 4), read_state(None, 4)
        ('0042', None, None, None, None)
    """
    return answer.zfill(dials) if answer is not None and answer.isdecimal() and len(answer) <= dials else None


def locks(lengths: Sequence[int], per_length: int, dials: int, seed: int) -> Sequence[Lock]:
    """Return tasks of each length, taken in turns; the same for the same numbers.

    Args:
        lengths: Steps of a task [count, >= 1].
        per_length: Tasks of each length [count, >= 1].
        dials: Dials of a lock [2..9].
        seed: Random seed; it is in the names, since another one makes other tasks.
    """
    return [_lock(length, number, dials, seed) for number in range(per_length) for length in lengths]


def _lock(length: int, number: int, dials: int, seed: int) -> Lock:
    chance = Random(f"{seed}/{length}/{number}/{dials}")
    start = "".join(str(chance.randint(0, 9)) for _ in range(dials))
    steps = tuple(_step(chance, dials) for _ in range(length))
    done = "\n".join(f"{place}. {step.instruction}" for place, step in enumerate(steps, 1))
    item = Item(
        id=f"lock_{length}-{dials}-{seed}-{number}",
        dataset=f"lock_{length}",
        question=f"{_rules(start)} These steps are done in order:\n{done}\n{ASK}",
        answer=written(end_state(start, steps)),
        answer_type=AnswerType.NUMBER,
        dimension="logical_reasoning",
        proxy=f"steps: {length}",
        checker="equal number",
    )
    return Lock(item=item, start=start, steps=steps)


def _step(chance: Random, dials: int) -> Step:
    kind = chance.choice(KINDS)
    if kind == TURN:
        return Step(kind=TURN, first=chance.randint(1, dials), second=chance.randint(1, 9))
    if kind == SWAP:
        first, second = sorted(chance.sample(range(1, dials + 1), 2))
        return Step(kind=SWAP, first=first, second=second)
    return Step(kind=ALL, second=chance.randint(1, 9)) if kind == ALL else Step(kind=REVERSE)


def _rules(shown: str) -> str:
    return (
        f"A lock has {len(shown)} dials, each with a digit from 0 to 9; turned up from 9 a dial shows 0 again. "
        f"It shows {shown}."
    )
