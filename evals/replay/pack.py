"""A pack holds recorded answers of several agents to public questions; it is read and checked here.

Its files are JSON Lines, compressed by gzip, one question a line. Answers are compared once, by the product's own rules
(papers.md 2.3); from then on equal answers of a question have the same number. Its records are the same without a word
of a question or of an answer: they can be published, and give the same figures.
"""

import ast
import gzip
import hashlib
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chassis.json_text import loads
from kernel.answers import AnswerType, cluster
from kernel.errors import Code, MetacogError
from kernel.values import value
from sandbox.client_mathematics import client_mathematics

ENDING = ".jsonl.gz"
# Bytes that one file may have after decompression, and lines: a pack is read into memory.
MOST_BYTES = 512 * 1024**2
MOST_ITEMS = 100_000
# Shuffles of the test that samples are in random order, and the share of them below which a file is rejected.
SHUFFLES = 4_000
SORTED_BELOW = 0.001
# Number of an answer that could not be read from the output.
INVALID = -1

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

KNOWN_TYPES: Mapping[str, AnswerType] = {
    "mmlu_pro": AnswerType.CHOICE,
    "zeroeval_gsm": AnswerType.NUMBER,
    "gsm8k_verifier": AnswerType.NUMBER,
}


class PackInvalid(MetacogError):
    """A pack of recorded answers cannot be used."""

    code = Code.INVALID_ARGUMENT
    reason = "PACK_INVALID"


@value
class Agent:
    """The answers of one agent to the questions of a file.

    Attributes:
        name: Its name.
        answers: Number of each answer, shape (items, samples); `INVALID` for one that could not be read. Equal numbers
            in a row are equal answers, also between agents.
        right: Whether each answer was judged right, same shape.
        asked: Whether it was asked the question, shape (items,).
        characters: Length of its output [characters], shape (items,); NaN where it was not recorded.
    """

    name: str
    answers: Ints
    right: npt.NDArray[np.bool_]
    asked: npt.NDArray[np.bool_]
    characters: Floats

    @property
    def samples(self) -> int:
        """Return the answers that it gave to each question [count]."""
        return int(self.answers.shape[1])

    @property
    def model(self) -> str:
        """Return the name of its model: without the temperature, and without whether it reasoned first.

        Example:
            >>> none, no = np.zeros((0, 1), dtype=int), np.zeros((0, 1), dtype=bool)
            >>> Agent(name="codellama-7b+cot@0.8", answers=none, right=no, asked=no[:, 0], characters=none[:, 0]).model
            'codellama-7b'
        """
        return self.name.split("@")[0].removesuffix("+cot")


@value
class RecordedSet:
    """One file of a pack.

    Attributes:
        name: Its name without the ending.
        questions: The questions; none in records, which have no wording.
        lengths: Length of each question [characters].
        options: Answers that each question lists [count]; 0 where the answer is free.
        agents: Its agents, by name.
        fitting: Which questions are for fitting; results are reported on the others. Questions of equal wording are on
            the same side.
        categories: Category of each question, by which profiles are kept and gains found: its field `category`, else
            `dataset` where the questions of the file are of several; empty where neither says more than the file.
        inferred: Kind that the product inferred for each question, where records have it; else empty.
    """

    name: str
    questions: tuple[str, ...]
    lengths: Ints
    options: Ints
    agents: Mapping[str, Agent]
    fitting: npt.NDArray[np.bool_]
    categories: tuple[str, ...] = ()
    inferred: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.lengths)


def read_pack(folder: Path) -> tuple[RecordedSet, ...]:
    """Return the files of a pack, by name.

    Raises:
        PackInvalid: When the folder holds no pack, a line does not fit the schema, or samples are sorted.
    """
    return tuple(read_set(path) for path in _files(folder))


def _files(folder: Path) -> Sequence[Path]:
    paths = sorted(folder.glob(f"*{ENDING}")) if folder.is_dir() else []
    if not paths:
        raise PackInvalid(f"{folder} holds no recorded answers; name a folder with files *{ENDING}")
    return paths


def read_set(path: Path) -> RecordedSet:
    """Return one file of a pack; raises as `read_pack` does."""
    name = path.name.removesuffix(ENDING)
    lines = _lines(path)
    agents = sorted({agent for line in lines for agent in line["answers"]})
    samples = {agent: max(len(line["answers"].get(agent, ())) for line in lines) for agent in agents}
    numbered = [_numbered(line, _answer_type(name, lines)) for line in lines]
    known = [_about(line) for line in lines]
    found = RecordedSet(
        name=name,
        questions=tuple(line["question"] for line in lines if "question" in line),
        lengths=np.array([one["length"] for one in known], dtype=np.int64),
        options=np.array([one["options"] for one in known], dtype=np.int64),
        agents={agent: _agent(agent, samples[agent], lines, numbered) for agent in agents},
        fitting=np.array([_is_fitting(one["digest"]) for one in known], dtype=np.bool_),
        categories=_categories(lines),
        inferred=tuple(line["kind"] for line in lines if "kind" in line),
    )
    chance = chance_of_order(found)
    if chance is not None and chance < SORTED_BELOW:
        raise PackInvalid(
            f"{path.name}: the samples of an agent are sorted: earlier ones are right more, or less, often than later"
            f" ones, p = {chance:.4f}; shuffle the answers of each question"
        )
    return found


def is_for_fitting(question: str) -> bool:
    """Return whether a question is for fitting: one half of all, by the hash of its wording.

    Example:
        >>> is_for_fitting("What is 6 times 7?") == is_for_fitting("  What is  6 times 7? ")
        True
    """
    return _is_fitting(_digest(question))


def _digest(question: str) -> str:
    wording = " ".join(question.split()).casefold().encode()
    return hashlib.blake2b(wording, digest_size=8).hexdigest()


def _is_fitting(digest: str) -> bool:
    return int(digest[:2], 16) < 128


def write_records(pack: Path, folder: Path, kinds: Mapping[str, Sequence[str]]) -> Sequence[Path]:
    """Write the records of a pack: its files without a word of a question or of an answer; return their paths.

    Args:
        pack: Its folder.
        folder: The folder of the records; it is made where it does not exist.
        kinds: Kind that the product infers for each question, by file.

    Raises:
        PackInvalid: When the pack cannot be used.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for path in _files(pack):
        name = path.name.removesuffix(ENDING)
        lines = _lines(path)
        answer_type = _answer_type(name, lines)
        inferred = kinds.get(name, [None] * len(lines))
        records = [_record(line, answer_type, kind) for line, kind in zip(lines, inferred, strict=True)]
        text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
        written.append(folder / path.name)
        written[-1].write_bytes(gzip.compress(text.encode(), mtime=0))
    return written


def _record(line: Mapping[str, Any], answer_type: AnswerType | None, kind: str | None) -> Mapping[str, Any]:
    numbers = _numbered(line, answer_type)
    answers = {agent: [numbers.get(one) for one in given] for agent, given in line["answers"].items()}
    kept = {name: line[name] for name in ("id", "dataset", "category") if name in line}
    judged = {name: line[name] for name in ("right", "chars") if name in line}
    return {**kept, **_about(line), **({} if kind is None else {"kind": kind}), "answers": answers, **judged}


def _about(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what records keep of a question: digest of its wording, length [characters], options [count]."""
    if "question" not in line:
        return {name: line[name] for name in ("digest", "length", "options")}
    question = line["question"]
    return {"digest": _digest(question), "length": len(question), "options": len(line.get("choices") or ())}


def chance_of_order(recorded: RecordedSet, shuffles: int = SHUFFLES) -> float | None:
    """Return how probable the trends of right answers by position are where samples are in random order [0..1].

    The statistic is the strongest trend of any agent. A shuffle reorders the samples of a question for all agents with
    as many samples alike, since these may share one order.

    Returns:
        The p value of a permutation test, at least 1 / (shuffles + 1); None without repeated samples.
    """
    by_size: dict[int, list[Agent]] = {}
    for agent in recorded.agents.values():
        if agent.samples > 1:
            by_size.setdefault(agent.samples, []).append(agent)
    if not by_size:
        return None
    rng = np.random.default_rng(0)
    seen, drawn = 0.0, np.zeros(shuffles)
    for size, agents in sorted(by_size.items()):
        right = np.stack([agent.right & agent.asked[:, None] for agent in agents]).astype(np.float64)
        places = np.arange(size) - (size - 1) / 2
        centred = right - right.mean(axis=2, keepdims=True)
        spread = np.sqrt((centred**2).sum(axis=(1, 2)) * (places**2).sum() / (size - 1))
        flat = centred.reshape(len(agents), -1)
        scale = np.where(spread > 0, spread, np.inf)
        seen = max(seen, float(np.max(np.abs(flat @ np.tile(places, len(recorded))) / scale)))
        for start in range(0, shuffles, 500):
            many = min(500, shuffles - start)
            orders = rng.permuted(np.broadcast_to(places, (many, len(recorded), size)), axis=2).reshape(many, -1)
            strongest = np.max(np.abs(flat @ orders.T) / scale[:, None], axis=0)
            drawn[start : start + many] = np.maximum(drawn[start : start + many], strongest)
    return float((1 + np.count_nonzero(drawn >= seen - 1e-9)) / (shuffles + 1))


def _lines(path: Path) -> Sequence[Mapping[str, Any]]:
    lines: list[Mapping[str, Any]] = []
    size = 0
    try:
        with gzip.open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                size += len(raw)
                if size > MOST_BYTES or number > MOST_ITEMS:
                    raise PackInvalid(f"{path.name}: larger than {MOST_BYTES} bytes or {MOST_ITEMS} lines; split it")
                lines.append(_checked(raw, f"{path.name}, line {number}"))
    except (OSError, EOFError) as error:
        raise PackInvalid(f"{path.name} cannot be read as gzip: {error}") from error
    if not lines:
        raise PackInvalid(f"{path.name} holds no question")
    identifiers = [line["id"] for line in lines]
    if len(set(identifiers)) < len(identifiers):
        twice = next(one for one in identifiers if identifiers.count(one) > 1)
        raise PackInvalid(f"{path.name}: the id {twice!r} stands on two lines")
    return lines


def _checked(raw: bytes, where: str) -> Mapping[str, Any]:
    try:
        line = loads(raw)
    except ValueError as error:
        raise PackInvalid(f"{where}: not JSON: {error}") from error
    problem = _problem(line)
    if problem:
        raise PackInvalid(f"{where}: {problem}")
    return line  # type: ignore[no-any-return]


def _problem(line: object) -> str:
    """Return what is wrong with a line; empty when nothing is."""
    if not isinstance(line, dict):
        return "not an object"
    if not isinstance(line.get("id"), str):
        return "id must be a text"
    if "question" in line and not isinstance(line["question"], str):
        return "question must be a text"
    if "question" not in line and not _is_record(line):
        return "question must be a text, or digest, length and options stand for it"
    if not isinstance(line.get("choices", []), list):
        return "choices must be a list"
    if not isinstance(line.get("category", ""), str) or not isinstance(line.get("dataset", ""), str):
        return "dataset and category must be texts"
    answers, right = line.get("answers"), line.get("right")
    if not isinstance(answers, dict) or not isinstance(right, dict) or not answers or answers.keys() != right.keys():
        return "answers and right must be objects with the same agents, at least one"
    of, named = (str, "texts") if "question" in line else (int, "numbers")
    problems = (_agent_problem(agent, answers[agent], right[agent], of, named) for agent in answers)
    return next(filter(None, problems), "")


def _is_record(line: Mapping[str, Any]) -> bool:
    counts = (line.get("length"), line.get("options"))
    digest = line.get("digest")
    return (
        isinstance(digest, str)
        and re.fullmatch("[0-9a-f]{16}", digest) is not None
        and isinstance(line.get("kind", ""), str)
        and all(isinstance(one, int) and one >= 0 for one in counts)
    )


def _agent_problem(agent: str, answers: object, right: object, of: type, named: str) -> str:
    if not isinstance(answers, list) or not isinstance(right, list) or len(answers) != len(right) or not answers:
        return f"answers and right of {agent} must be lists of the same length, at least 1"
    if not all(one is None or (isinstance(one, of) and not isinstance(one, bool)) for one in answers):
        return f"answers of {agent} must be {named} or null"
    return "" if all(one in (0, 1) for one in right) else f"right of {agent} must be 0 or 1"


def _categories(lines: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    sources = [line.get("dataset", "") for line in lines]
    shown = sources if len(set(sources)) > 1 else [""] * len(lines)
    return tuple(line.get("category") or source for line, source in zip(lines, shown, strict=True))


def _answer_type(name: str, lines: Sequence[Mapping[str, Any]]) -> AnswerType | None:
    """Return the type of a file's answers; None for literals of Python."""
    if "crux" in name:
        return None
    if name in KNOWN_TYPES:
        return KNOWN_TYPES[name]
    return AnswerType.CHOICE if all(line.get("choices") for line in lines) else AnswerType.TEXT


def _numbered(line: Mapping[str, Any], answer_type: AnswerType | None) -> Mapping[Any, int]:
    """Return the number of each distinct answer of a question; those that are none of the type are left out."""
    if "question" not in line:
        return {one: one for given in line["answers"].values() for one in given if one is not None}
    distinct = sorted({one for given in line["answers"].values() for one in given if one is not None})
    if answer_type is None:
        forms = dict.fromkeys(literal(one) for one in distinct)
        numbers = {form: number for number, form in enumerate(forms)}
        return {one: numbers[literal(one)] for one in distinct}
    clusters = cluster(distinct, answer_type, options=line.get("choices") or (), mathematics=client_mathematics())
    found = {spelling: number for number, one in enumerate(clusters) for spelling in one.spellings}
    return {one: found[one.strip()] for one in distinct if one.strip() in found}


def literal(text: str) -> str:
    """Return a text that is the same for equal literals of Python; of other texts the words.

    Example:
        >>> literal("'a'") == literal('"a"'), literal("[1,2]"), literal("not  python")
        (True, '[1, 2]', 'not python')
    """
    try:
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
            return repr(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return " ".join(text.split())


def _agent(name: str, samples: int, lines: Sequence[Mapping[str, Any]], numbered: Sequence[Mapping[Any, int]]) -> Agent:
    answers = np.full((len(lines), samples), INVALID, dtype=np.int64)
    right = np.zeros((len(lines), samples), dtype=np.bool_)
    asked = np.zeros(len(lines), dtype=np.bool_)
    characters = np.full(len(lines), np.nan)
    for at, (line, numbers) in enumerate(zip(lines, numbered, strict=True)):
        given = line["answers"].get(name, ())
        asked[at] = len(given) == samples
        if asked[at]:
            answers[at] = [INVALID if one is None else numbers.get(one, INVALID) for one in given]
            right[at] = line["right"][name]
        length = (line.get("chars") or {}).get(name)
        if isinstance(length, int):
            characters[at] = length
    return Agent(name=name, answers=answers, right=right, asked=asked, characters=characters)
