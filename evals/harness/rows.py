"""Records, read as rows: one for each item, arm and seed, with its label. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from evals.errors import RecordsUnusable
from evals.harness.commands import runs_of
from evals.harness.failures import error_of, error_reason, replies_in_force
from evals.harness.replies import NO_ANSWER, ArmAnswer, read_answer
from evals.records import Record
from evals.scorers.answers import Known, ScoredAnswer, scored
from kernel.answers import AnswerType, rules_of
from kernel.values import value


@value
class RecordedItem:
    """The recorded facts of an item.

    Attributes:
        id: Its name.
        dataset: Its data set.
        dimensions: Everything that it takes; empty when unknown.
        difficulty: `easy`, `medium`, `hard`, or empty.
        known: The right answer.
        prompt_characters: Length of its prompt [characters].
    """

    id: str
    dataset: str
    dimensions: tuple[str, ...]
    difficulty: str
    known: Known
    prompt_characters: int


@value
class Row:
    """The answer of one arm to one item with one seed.

    Attributes:
        item: The item.
        arm: The arm.
        seed: The seed.
        said: Its answer.
        label: Whether that is right.
        reply: The whole reply.
        checks: What became of programs, by the name of their text.
    """

    item: RecordedItem
    arm: str
    seed: int
    said: ArmAnswer
    label: ScoredAnswer
    reply: Record
    checks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        """Return whether it is right."""
        return self.label.right

    @property
    def replayed(self) -> bool:
        """Whether no model was called, but recorded samples were counted again: what it reports as spent was not."""
        return "arbitration" in self.reply

    def judged_text(self, text: str, part: str) -> ScoredAnswer:
        """Label of another text of the reply, whose program was checked under the name `part`."""
        return label(text, self.item.known, self.checks.get(part))


@value
class RecordedEvaluation:
    """An evaluation as it was recorded.

    Attributes:
        runs: Headings of its runs, one for each start.
        rows: What was answered.
        failures: Failed requests, by arm and reason [count]; without those that were answered when asked again.
        failed: The same as rows without an answer, which are wrong.
    """

    runs: Sequence[Record]
    rows: Sequence[Row]
    failures: Mapping[tuple[str, str], int]
    failed: Sequence[Row] = ()

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms that answered, in order."""
        return tuple(dict.fromkeys(row.arm for row in self.rows))

    def of(self, arm: str) -> Sequence[Row]:
        """The rows of one arm."""
        return [row for row in self.rows if row.arm == arm]

    def failed_of(self, arm: str) -> Sequence[Row]:
        """The failed requests of one arm."""
        return [row for row in self.failed if row.arm == arm]


def recorded_evaluation(records: Sequence[Record], command: str) -> RecordedEvaluation:
    """The evaluation that `records` hold.

    Args:
        records: Raw records.
        command: The evaluation that they must be of.

    Raises:
        RecordsUnusable: When they have no heading, are of another evaluation, lack what they should have, or hold no
            reply yet.
    """
    runs = runs_of(records, command)
    facts = {record["id"]: recorded_item(record) for record in records if record["kind"] == "item"}
    replies = replies_in_force(record for record in records if record["kind"] == "reply").values()
    rows = [row for record in replies if (row := _row(record, facts)) is not None]
    if not rows:
        raise RecordsUnusable("there is nothing to report on yet: no request has a reply")
    failed = [(record, error) for record in replies if (error := error_of(record)) is not None]
    return RecordedEvaluation(
        runs=runs,
        rows=rows,
        failures=Counter((record["arm"], error_reason(error)) for record, error in failed),
        failed=[_lost(record, facts) for record, _ in failed],
    )


def recorded_item(record: Record) -> RecordedItem:
    """The item that an introduction describes.

    Raises:
        RecordsUnusable: When it lacks what it should have.
    """
    try:
        return RecordedItem(
            id=record["id"],
            dataset=record["dataset"],
            dimensions=tuple(record.get("dimensions") or ()),
            difficulty=record["difficulty"],
            known=Known(
                answer=record["answer"],
                answer_type=AnswerType(record["answer_type"]),
                aliases=tuple(record["aliases"]),
                choices=tuple(record["choices"]),
            ),
            prompt_characters=record["prompt_characters"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RecordsUnusable(f"the records lack what they should have: {error!r}") from error


def label(text: str, known: Known, check: Mapping[str, Any] | None) -> ScoredAnswer:
    """Return whether `text` is right: by its tests where it is a program, else by the rules of its answer's type."""
    if not rules_of(known.answer_type).is_program:
        return scored(text, known)
    passed = (check or {}).get("passed")
    return ScoredAnswer(answer=None if check is None else text, right=passed is True, decided=passed is not None)


def _row(record: Record, facts: Mapping[str, RecordedItem]) -> Row | None:
    answer = read_answer(record)
    if answer is None:
        return None
    item = _item(record, facts)
    checks = record.get("checks") or {}
    return Row(
        item=item,
        arm=record["arm"],
        seed=record["seed"],
        said=answer,
        label=label(answer.text, item.known, checks.get("answer")),
        reply=record["reply"],
        checks=checks,
    )


def _item(record: Record, facts: Mapping[str, RecordedItem]) -> RecordedItem:
    item = facts.get(record["item"])
    if item is None:
        raise RecordsUnusable(f"the records have a reply to {record['item']} but not the item")
    return item


def _lost(record: Record, facts: Mapping[str, RecordedItem]) -> Row:
    """A failed request as a row without an answer."""
    return Row(
        item=_item(record, facts),
        arm=record["arm"],
        seed=record["seed"],
        said=NO_ANSWER,
        label=ScoredAnswer(answer=None, right=False, decided=True),
        reply={},
    )
