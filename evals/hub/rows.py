"""Rows of public data sets, read as items; one small function for each set. Pure.

Fields are those that the sets' pages describe; a row that lacks one is refused by the caller, by name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from evals.items import Item
from kernel.answers import AnswerType
from kernel.values import value

Row = Mapping[str, Any]
Reader = Callable[[Row, str], Item]

_LOGIC = "logical_reasoning"
_BULLET, _LETTER = re.compile(r"^(?:\([A-Z]\)|-)\s*"), re.compile(r"\(([A-Z])\)")
_LAST_NUMBER = re.compile(r"####\s*(-?[\d.,/]+)")


@value
class HubSet:
    """Where a public data set is, and how its rows are read.

    Attributes:
        path: Its name on the hub.
        subset: Its configuration; empty: the default one.
        split: The split that is evaluated on.
        read: From a row and the item's name to the item.
        programs: Whether its items ask for programs, which not every evaluation can judge.
    """

    path: str
    subset: str
    split: str
    read: Reader
    programs: bool = False


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
        return _choice(dataset, dimension, name, row[question], row["choices"]["text"], place)

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
        return _choice(dataset, dimension, name, row[question], texts, int(row[answer]))

    return read


def winogrande(row: Row, name: str) -> Item:
    """A sentence with a gap and two fillers, counted from 1."""
    asked = f"Which option fills the gap (_)? {row['sentence']}"
    texts = [row["option1"], row["option2"]]
    return _choice("winogrande", "commonsense_inference", name, asked, texts, int(row["answer"]) - 1)


def truthfulqa(row: Row, name: str) -> Item:
    """A question with one true option; options are put in the order of their texts, for the true one stands first."""
    target = row["mc1_targets"]
    texts = sorted(target["choices"])
    place = texts.index(target["choices"][list(target["labels"]).index(1)])
    return _choice("truthfulqa", "knowledge_retrieval", name, row["question"], texts, place)


def expression(row: Row, name: str) -> Item:
    """A Boolean expression; the row's text ends with the `is` that it is to be completed after."""
    asked = f"Evaluate the expression: {row['input'].strip().removesuffix(' is')}. Is it true?"
    return _logical("bbh_boolean_expressions", name, asked, "yes" if row["target"] == "True" else "no")


def web_of_lies(row: Row, name: str) -> Item:
    """People who lie or tell the truth about each other, and a question about the last of them."""
    asked = row["input"].strip().removeprefix("Question: ")
    return _logical("bbh_web_of_lies", name, asked, row["target"].lower())


def listed(dataset: str) -> Reader:
    """Reader of sets of BIG-bench Hard whose text ends with its options; the target is a letter or an option itself."""

    def read(row: Row, name: str) -> Item:
        asked, _, options = row["input"].partition("\nOptions:\n")
        texts = [_BULLET.sub("", line.strip()) for line in options.splitlines() if line.strip()]
        letter = _LETTER.fullmatch(row["target"])
        place = ascii_uppercase.index(letter[1]) if letter else texts.index(row["target"])
        return _choice(dataset, _LOGIC, name, asked.strip(), texts, place)

    return read


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


def _logical(dataset: str, name: str, question: str, answer: str) -> Item:
    return Item(
        id=name,
        dataset=dataset,
        question=question,
        answer=answer,
        answer_type=AnswerType.BOOLEAN,
        dimension=_LOGIC,
    )


def _choice(dataset: str, dimension: str, name: str, question: str, texts: Sequence[str], place: int) -> Item:
    return Item(
        id=name,
        dataset=dataset,
        question=question,
        answer=ascii_uppercase[place],
        answer_type=AnswerType.CHOICE,
        dimension=dimension,
        choices=tuple(texts),
    )


_COMMON, _KNOWN = "commonsense_inference", "knowledge_retrieval"
_ARC = labelled("arc_easy", _KNOWN)
_ARC_HARD = labelled("arc_challenge", _KNOWN)
_MMLU = indexed("mmlu", _KNOWN, "choices", "answer", "question")
_HELLASWAG = indexed("hellaswag", _COMMON, "endings", "label", "ctx")
# BIG-bench Hard: one configuration for each of its tasks, with the fields `input` and `target`.
_HARD = "lukaemon/bbh"
_PIQA = indexed("piqa", _COMMON, ("sol1", "sol2"), "label", "goal")

SETS: Mapping[str, HubSet] = {
    "boolq": HubSet(path="google/boolq", subset="", split="validation", read=boolq),
    "arc_easy": HubSet(path="allenai/ai2_arc", subset="ARC-Easy", split="test", read=_ARC),
    "arc_challenge": HubSet(path="allenai/ai2_arc", subset="ARC-Challenge", split="test", read=_ARC_HARD),
    "strategyqa": HubSet(path="ChilleD/StrategyQA", subset="", split="test", read=strategyqa),
    "gsm8k": HubSet(path="openai/gsm8k", subset="main", split="test", read=gsm8k),
    "svamp": HubSet(path="ChilleD/SVAMP", subset="", split="test", read=svamp),
    "truthfulqa": HubSet(path="truthfulqa/truthful_qa", subset="multiple_choice", split="validation", read=truthfulqa),
    "mmlu": HubSet(path="cais/mmlu", subset="all", split="test", read=_MMLU),
    "commonsenseqa": HubSet(
        path="tau/commonsense_qa", subset="", split="validation", read=labelled("commonsenseqa", _COMMON)
    ),
    "hellaswag": HubSet(path="Rowan/hellaswag", subset="", split="validation", read=_HELLASWAG),
    "piqa": HubSet(path="ybisk/piqa", subset="", split="validation", read=_PIQA),
    "winogrande": HubSet(path="allenai/winogrande", subset="winogrande_xl", split="validation", read=winogrande),
    "bbh_boolean_expressions": HubSet(path=_HARD, subset="boolean_expressions", split="test", read=expression),
    "bbh_web_of_lies": HubSet(path=_HARD, subset="web_of_lies", split="test", read=web_of_lies),
    "bbh_formal_fallacies": HubSet(
        path=_HARD, subset="formal_fallacies", split="test", read=listed("bbh_formal_fallacies")
    ),
    "bbh_logical_deduction": HubSet(
        path=_HARD, subset="logical_deduction_five_objects", split="test", read=listed("bbh_logical_deduction")
    ),
    "humaneval": HubSet(path="openai/openai_humaneval", subset="", split="test", read=humaneval, programs=True),
    "mbpp": HubSet(path="google-research-datasets/mbpp", subset="sanitized", split="test", read=mbpp, programs=True),
}
