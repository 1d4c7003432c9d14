"""Recorded samples, read as questions: of this evaluation's own records, or of recordings made elsewhere. Pure."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from chassis.json_text import loads
from evals.errors import RecordsUnusable
from evals.harness.rows import RecordedItem, Row
from evals.mc_mas.arms import recording
from evals.records import Record
from evals.scorers.answers import Known
from kernel.answers import AnswerType, is_right
from kernel.values import value
from sandbox.client_mathematics import client_mathematics


@value
class Sampled:
    """One sample: its answer in canonical form, None where it gave none, and the tokens that it took [count]."""

    answer: str | None
    tokens: int


class Question:
    """One question with everything that was sampled for it.

    Args:
        item: The item.
        seed: The seed.
        samples: Recorded samples, as replays take them.
        measures: The arbiter's measures of them; empty where there are none.

    Attributes:
        item: The item.
        seed: The seed.
        solvers: Samples of each solver.
        arbiter: Samples of the arbiter.
        critiques: Critiques that were written [count].
        critique_tokens: Tokens of these [count]; None where one of them does not report its own.
        measures: The arbiter's measures.
    """

    def __init__(self, item: RecordedItem, seed: int, samples: Mapping[str, Any], measures: Mapping[str, Any]) -> None:
        self.item = item
        self.seed = seed
        own = samples["recorded_solver_samples"]
        numbers = sorted({sample["solver"] or 0 for sample in own})
        self.solvers = tuple(_sampled([s for s in own if (s["solver"] or 0) == number]) for number in numbers)
        self.arbiter = _sampled(samples["recorded_arbitration_samples"])
        self.critiques = len(samples["recorded_critiques"])
        self.critique_tokens = _critique_tokens(samples["recorded_critiques"])
        self.measures = measures

    @cached_property
    def right(self) -> frozenset[str]:
        """Canonical answers among the samples that are right."""
        return frozenset(answer for answer, right in self._judged.items() if right is True)

    @property
    def undecided(self) -> bool:
        """Return whether some answer among the samples is one that no rule can judge, so that it counts as wrong."""
        return None in self._judged.values()

    @cached_property
    def _judged(self) -> Mapping[str, bool | None]:
        answers = {sample.answer for each in (*self.solvers, self.arbiter) for sample in each if sample.answer}
        return {answer: self._is_right(answer) for answer in answers}

    @property
    def solved(self) -> tuple[Sampled, ...]:
        """Samples of all solvers together."""
        return tuple(sample for solver in self.solvers for sample in solver)

    @property
    def tokens(self) -> int:
        """Tokens of all samples, and of critiques as far as they are reported [count]."""
        return sum(sample.tokens for sample in (*self.solved, *self.arbiter)) + (self.critique_tokens or 0)

    def _is_right(self, answer: str) -> bool | None:
        known = self.item.known
        options, aliases, mathematics = known.choices, known.aliases, client_mathematics()
        return is_right(
            answer, known.answer, known.answer_type, options=options, aliases=aliases, mathematics=mathematics
        )


def questions(rows: Sequence[Row]) -> Sequence[Question]:
    """The questions in the replies of a full arbitration."""
    whole = [row for row in rows if row.reply.get("samples")]
    return [Question(row.item, row.seed, recording(row.reply), row.reply["measures"]) for row in whole]


def read_recordings(file: Path, measures: Mapping[str, Mapping[str, Any]] | None = None) -> Sequence[Question]:
    """Questions of a file of recordings, one JSON object a line, in the fields that replays take.

    Args:
        file: The recordings.
        measures: The arbiter's measures by question, where they were replayed there.

    Raises:
        RecordsUnusable: When the file cannot be read, or a line holds no recording.
    """
    known = measures or {}
    return [_of_line(line, place, known.get(line.get("id", ""), {})) for place, line in lines_of(file)]


def lines_of(file: Path) -> Sequence[tuple[str, Record]]:
    """The lines of a file of recordings, each with its place for messages.

    Raises:
        RecordsUnusable: When the file cannot be read, is empty, or a line holds no object.
    """
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordsUnusable(f"{file} cannot be read: {error}") from error
    made = [(f"{file}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not made:
        raise RecordsUnusable(f"{file} holds no recording")
    return [(place, _object(line, place)) for place, line in made]


def _object(line: str, place: str) -> Record:
    try:
        recorded: Record = loads(line)
    except ValueError as error:
        raise RecordsUnusable(f"{place}: no recording: {error!r}") from error
    if not isinstance(recorded, dict):
        raise RecordsUnusable(f"{place}: no recording: {line[:40]}")
    return recorded


def made_with(file: Path) -> Mapping[str, Any]:
    """Return what the recordings of `file` were made with, as the file beside it reports; empty where there is none.

    Raises:
        RecordsUnusable: When that file cannot be read.
    """
    about_file = about(file)
    try:
        recorded: Mapping[str, Any] = loads(about_file.read_text(encoding="utf-8")) if about_file.exists() else {}
    except (OSError, ValueError) as error:
        raise RecordsUnusable(f"{about_file} cannot be read: {error}") from error
    return recorded


def about(file: Path) -> Path:
    """The file beside recordings that records their model, commit, seed, prompt digests and time."""
    return file.with_suffix(".about.json")


def _of_line(recorded: Record, place: str, measures: Mapping[str, Any]) -> Question:
    try:
        known = Known(
            answer=recorded["truth"],
            answer_type=AnswerType(recorded["answer_type"]),
            aliases=tuple(recorded.get("truth_aliases") or ()),
        )
        item = RecordedItem(
            id=recorded["id"],
            dataset=recorded["id"].partition("-")[0],
            dimensions=(),
            difficulty="",
            known=known,
            prompt_characters=len(recorded.get("question") or ""),
        )
        return Question(item, 0, recorded, measures)
    except (ValueError, KeyError, TypeError) as error:
        raise RecordsUnusable(f"{place}: no recording: {error!r}") from error


def _sampled(samples: Sequence[Mapping[str, Any]]) -> tuple[Sampled, ...]:
    return tuple(Sampled(answer=each["answer"], tokens=each.get("completion_tokens") or 0) for each in samples)


def _critique_tokens(critiques: Sequence[Mapping[str, Any]]) -> int | None:
    recorded = [(each.get("usage") or {}).get("completion_tokens") for each in critiques]
    known: list[int] = [tokens for tokens in recorded if tokens is not None]
    return sum(known) if len(known) == len(recorded) else None
