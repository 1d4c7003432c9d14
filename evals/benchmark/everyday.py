"""Cross-domain tasks of everyday knowledge and mathematics: steps whose natural order must be known. Pure."""

from collections.abc import Sequence
from random import Random

from evals.items import Item
from kernel.answers import AnswerType

# Everyday work in its natural order: no step can sensibly be done before the one above it.
WORKS: dict[str, Sequence[str]] = {
    "frying an egg": (
        "take the egg from the carton", "crack the egg into the pan", "fry the egg", "put the fried egg on a plate",
        "eat the egg", "wash the plate",
    ),
    "posting a letter": (
        "write the letter", "fold the letter", "put the folded letter into an envelope", "seal the envelope",
        "stamp the sealed envelope", "drop the stamped letter into the letter box",
    ),
    "washing clothes": (
        "put the dirty clothes into the machine", "run the washing machine", "take the wet clothes out",
        "hang the wet clothes on the line", "fold the dry clothes", "put the folded clothes into the wardrobe",
    ),
    "planting a tree": (
        "dig a hole", "set the young tree into the hole", "fill the hole around the tree with earth",
        "water the planted tree", "wait for the first fruit to grow", "pick the ripe fruit",
    ),
    "painting a wall": (
        "open the tin of paint", "stir the open tin of paint", "paint the wall", "let the painted wall dry",
        "hang a picture on the dry wall", "dust the picture",
    ),
    "baking bread": (
        "mix flour and water into dough", "knead the dough", "let the kneaded dough rise", "bake the risen dough",
        "let the baked bread cool", "slice the cold bread",
    ),
    "taking a train": (
        "buy a ticket", "walk to the platform with the ticket", "board the train", "find a seat on the train",
        "leave the train at the destination", "walk from the station to the hotel",
    ),
}  # fmt: skip
# Steps that are shown, by difficulty.
SHOWN = {"easy": 4, "medium": 5, "hard": 6}


def everyday(chance: Random, number: int, level: str) -> Item:
    """Steps of everyday work out of order with their minutes, and the time at which one of them begins."""
    name = chance.choice(sorted(WORKS))
    steps = list(WORKS[name][: SHOWN[level]])
    minutes = {step: chance.randint(1, 30) for step in steps}
    place = chance.randint(2, len(steps) - 1)
    shown = _unsorted(chance, steps)
    lines = "\n".join(f"- {step}: {minutes[step]} minutes" for step in shown)
    return Item(
        id=f"cross_everyday-{number}",
        dataset="cross_everyday",
        question=(
            f"These are the steps of {name}, listed out of order:\n{lines}\nThey are done in their natural order, one "
            f'right after the other. After how many minutes does this one begin: "{steps[place]}"?'
        ),
        answer=str(sum(minutes[step] for step in steps[:place])),
        answer_type=AnswerType.NUMBER,
        dimension="commonsense_inference",
        difficulty=level,
        dimensions=("commonsense_inference", "math_computation"),
        proxy=f"steps to put in order: {len(steps)}",
        checker="equal number",
    )


def _unsorted(chance: Random, steps: Sequence[str]) -> Sequence[str]:
    """The steps in an order that is not theirs."""
    while True:
        shown = chance.sample(steps, len(steps))
        if shown != list(steps):
            return shown
