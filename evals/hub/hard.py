"""Rows of BIG-bench Hard, read as items. Pure.

All of its tasks have the fields `input` and `target`.
"""

import re
from string import ascii_uppercase

from evals.hub.rows import Reader, Row, choice_of
from evals.items import Item
from kernel.answers import AnswerType

LOGIC = "logical_reasoning"
_OPTIONS = "\nOptions:\n"
_BULLET, _LETTER = re.compile(r"^(?:\([A-Z]\)|-)\s*"), re.compile(r"\(([A-Z])\)")


def expression(row: Row, name: str) -> Item:
    """A Boolean expression; the row's text ends with the `is` that it is to be completed after."""
    question = f"Evaluate the expression: {row['input'].strip().removesuffix(' is')}. Is it true?"
    return _item("bbh_boolean_expressions", LOGIC, name, question, "yes" if row["target"] == "True" else "no")


def yes_or_no(dataset: str, dimension: str = LOGIC) -> Reader:
    """Reader of tasks whose target is yes or no, whether or not the text lists the two as its options."""

    def read(row: Row, name: str) -> Item:
        question = row["input"].partition(_OPTIONS)[0].strip().removeprefix("Question: ")
        return _item(dataset, dimension, name, question, row["target"].lower())

    return read


def listed(dataset: str) -> Reader:
    """Reader of tasks whose text ends with its options; the target is a letter or an option itself."""

    def read(row: Row, name: str) -> Item:
        question, _, options = row["input"].partition(_OPTIONS)
        texts = [_BULLET.sub("", line.strip()) for line in options.splitlines() if line.strip()]
        letter = _LETTER.fullmatch(row["target"])
        place = ascii_uppercase.index(letter[1]) if letter else texts.index(row["target"])
        return choice_of(dataset, LOGIC, name, question.strip(), texts, place)

    return read


def reckoned(row: Row, name: str) -> Item:
    """An arithmetic expression; the row's text ends with `=`."""
    question = f"Compute: {row['input'].strip().removesuffix('=').rstrip()}"
    return _item("bbh_multistep_arithmetic", "math_computation", name, question, row["target"], AnswerType.NUMBER)


def counted(row: Row, name: str) -> Item:
    """A list of things, and how many of one kind there are."""
    return _item(
        "bbh_object_counting", "math_computation", name, row["input"].strip(), row["target"], AnswerType.NUMBER
    )


def _item(
    dataset: str, dimension: str, name: str, question: str, answer: str, kind: AnswerType = AnswerType.BOOLEAN
) -> Item:
    return Item(id=name, dataset=dataset, question=question, answer=answer, answer_type=kind, dimension=dimension)
