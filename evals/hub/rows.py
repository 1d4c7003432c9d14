"""Rows of public data sets, read as items; one small function for each set. Pure.

Fields are those that the sets' pages describe; a row that lacks one is rejected by the caller, by name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from evals.items import Item
from kernel.answers import AnswerType
from kernel.answers.numbers import rational, spelled

Row = Mapping[str, Any]
Reader = Callable[[Row, str], Item]

_LAST_NUMBER = re.compile(r"####\s*(-?[\d.,/]+)")
_OPTION_LETTER = re.compile(r"^[A-Z]\)\s*")
_ONLY_WORDS, _SPACING = re.compile(r"^\\text\{([^{}]*)\}$"), re.compile(r"\\!\s*")
_LABELS = ("True", "False", "Uncertain")
# Up to how much a question is easy, and medium: words of the shortest answer, premises, the level of a contest.
_WORDS, _PREMISES, _LEVELS = (1, 2), (4, 5), (2, 3)


def boolq(row: Row, name: str) -> Item:
    """A question of yes or no on a passage."""
    return Item(
        id=name,
        dataset="boolq",
        question=f"{row['question'].strip().rstrip('?')}?",
        answer="yes" if row["answer"] else "no",
        answer_type=AnswerType.BOOLEAN,
        dimension="knowledge_retrieval",
        context=row["passage"],
    )


def strategyqa(row: Row, name: str) -> Item:
    """A question of yes or no that takes several steps."""
    return Item(
        id=name,
        dataset="strategyqa",
        question=row["question"],
        answer="yes" if row["answer"] else "no",
        answer_type=AnswerType.BOOLEAN,
        dimension="commonsense_inference",
    )


def gsm8k(row: Row, name: str) -> Item:
    """A word problem; its answer follows the last `####`."""
    found = _LAST_NUMBER.findall(row["answer"])
    return Item(
        id=name,
        dataset="gsm8k",
        question=row["question"],
        answer=found[-1].replace(",", "").rstrip("."),
        answer_type=AnswerType.NUMBER,
        dimension="math_computation",
    )


def svamp(row: Row, name: str) -> Item:
    """A word problem in two fields."""
    answer = float(row["Answer"])
    return Item(
        id=name,
        dataset="svamp",
        question=f"{row['Body'].strip()} {row['Question'].strip()}",
        answer=str(int(answer)) if answer.is_integer() else str(answer),
        answer_type=AnswerType.NUMBER,
        dimension="math_computation",
    )


def labelled(dataset: str, dimension: str, question: str = "question") -> Reader:
    """Reader of sets with `choices` of labels and texts, and an `answerKey` (ARC, CommonsenseQA)."""

    def read(row: Row, name: str) -> Item:
        place = list(row["choices"]["label"]).index(row["answerKey"])
        return choice_of(dataset, dimension, name, row[question], row["choices"]["text"], place)

    return read


def indexed(dataset: str, dimension: str, options: Sequence[str] | str, answer: str, question: str) -> Reader:
    """Reader of sets whose right option is given by its place.

    Args:
        dataset: Its name.
        dimension: What it takes.
        options: Field that holds all options, or the fields that hold one each.
        answer: Field of the right option's place.
        question: Field of the question.
    """

    def read(row: Row, name: str) -> Item:
        texts = row[options] if isinstance(options, str) else [row[field] for field in options]
        return choice_of(dataset, dimension, name, row[question], texts, int(row[answer]))

    return read


def winogrande(row: Row, name: str) -> Item:
    """A sentence with a gap and two fillers, counted from 1."""
    asked = f"Which option fills the gap (_)? {row['sentence']}"
    texts = [row["option1"], row["option2"]]
    return choice_of("winogrande", "commonsense_inference", name, asked, texts, int(row["answer"]) - 1)


def truthfulqa(row: Row, name: str) -> Item:
    """A question with one true option; options are put in the order of their texts, for the true one stands first."""
    target = row["mc1_targets"]
    texts = sorted(target["choices"])
    place = texts.index(target["choices"][list(target["labels"]).index(1)])
    return choice_of("truthfulqa", "knowledge_retrieval", name, row["question"], texts, place)


def humaneval(row: Row, name: str) -> Item:
    """A function to complete, with tests that define `check`."""
    return Item(
        id=name,
        dataset="humaneval",
        question=row["prompt"],
        answer=row["prompt"] + row["canonical_solution"],
        answer_type=AnswerType.CODE,
        dimension="code_generation",
        tests=row["test"],
        entry_point=row["entry_point"],
    )


def mbpp(row: Row, name: str) -> Item:
    """A function to write, with the asserts that it must pass."""
    tests = [*row.get("test_imports", ()), *row["test_list"]]
    return Item(
        id=name,
        dataset="mbpp",
        question=f"{row.get('prompt') or row['text']}\nIt must satisfy, for example:\n{row['test_list'][0]}",
        answer=row["code"],
        answer_type=AnswerType.CODE,
        dimension="code_generation",
        tests="\n".join(tests),
    )


def triviaqa(row: Row, name: str) -> Item:
    """A question of a quiz, with all the names that its answer has."""
    answer = row["answer"]
    return Item(
        id=name,
        dataset="triviaqa",
        question=row["question"],
        answer=answer["value"],
        answer_type=AnswerType.TEXT,
        dimension="knowledge_retrieval",
        aliases=_others(answer["aliases"], answer["value"]),
    )


def nq_open(row: Row, name: str) -> Item:
    """A question from the log of a search engine, with every answer that was accepted."""
    answers = row["answer"]
    return Item(
        id=name,
        dataset="nq_open",
        question=f"{row['question'].strip().rstrip('?')}?",
        answer=answers[0],
        answer_type=AnswerType.TEXT,
        dimension="knowledge_retrieval",
        difficulty=_graded(min(len(each.split()) for each in answers), _WORDS),
        aliases=_others(answers, answers[0]),
    )


def folio(row: Row, name: str) -> Item:
    """A statement that follows from premises, is against them, or neither."""
    premises = [line.strip() for line in row["premises"].splitlines() if line.strip()]
    statement = row["conclusion"].strip()
    return Item(
        id=name,
        dataset="folio",
        question=f"By the premises alone, is this statement true, false or uncertain? {statement}",
        answer=ascii_uppercase[_LABELS.index(row["label"].strip())],
        answer_type=AnswerType.CHOICE,
        dimension="logical_reasoning",
        difficulty=_graded(len(premises), _PREMISES),
        context="\n".join(premises),
        choices=_LABELS,
    )


def aqua_rat(row: Row, name: str) -> Item:
    """A word problem; each of its options begins with its letter."""
    texts = [_OPTION_LETTER.sub("", option) for option in row["options"]]
    place = ascii_uppercase.index(row["correct"])
    return choice_of("aqua_rat", "math_computation", name, row["question"], texts, place)


def math500(row: Row, name: str) -> Item:
    """A problem of a contest; its answer is a number where it is one, else LaTeX or words."""
    text = _SPACING.sub("", _ONLY_WORDS.sub(r"\1", row["answer"]))
    number = None if "=" in text else rational(text)  # of an equation it would be the right side
    return Item(
        id=name,
        dataset="math500",
        question=row["problem"],
        answer=text if number is None else spelled(number),
        answer_type=AnswerType.TEXT if number is None else AnswerType.NUMBER,
        dimension="math_computation",
        difficulty=_graded(int(row["level"]), _LEVELS),
    )


def choice_of(dataset: str, dimension: str, name: str, question: str, texts: Sequence[str], place: int) -> Item:
    """The item of a question with options; `place` is that of the right one."""
    return Item(
        id=name,
        dataset=dataset,
        question=question,
        answer=ascii_uppercase[place],
        answer_type=AnswerType.CHOICE,
        dimension=dimension,
        choices=tuple(texts),
    )


def _others(answers: Sequence[str], chosen: str) -> Sequence[str] | None:
    """`answers` but `chosen`, each once; None when there is no other."""
    return tuple(dict.fromkeys(each for each in answers if each != chosen)) or None


def _graded(amount: int, most: tuple[int, int]) -> str:
    """Return how hard a question is, by how much of something there is: up to how much it is easy, and medium."""
    easy, medium = most
    return "easy" if amount <= easy else "medium" if amount <= medium else "hard"
