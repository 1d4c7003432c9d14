"""The journal of an exam: answers, marks and sent labels are on disk, so that nothing is asked or sent twice."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import Any
from uuid import uuid4

from cli.exam.arms import ArmKind, ExamArm
from cli.exam.requests import AnswerOutcome, ExamAnswer
from cli.terminal.exits import UnusableInput
from cli.terminal.journal_file import JournalFile, not_a_journal, open_journal_file
from kernel.values import value

KIND = "an exam"


@value
class ExamIdentity:
    """The identity says which exam this is; a journal belongs to one.

    Attributes:
        tasks: Digest of the drawn tasks.
        per_kind: Tasks of each kind that were asked for [count].
        seed: Seed of the draw and of the requests.
        arms: Arms as the command names them.
        max_tokens: Tokens of each answer [count].
        all_votes: Whether votes are asked for until the last.
    """

    tasks: str
    per_kind: int
    seed: int
    arms: str
    max_tokens: int
    all_votes: bool = False

    @property
    def name(self) -> str:
        """The name of the exam.

        Example:
            >>> ExamIdentity(tasks="d", per_kind=30, seed=7, arms="models", max_tokens=1024).name
            'exam-a2c59f61bd'
        """
        stated = {name: item for name, item in asdict(self).items() if name != "all_votes" or item}
        return f"exam-{sha256(dumps(stated, sort_keys=True).encode()).hexdigest()[:10]}"


@value
class Mark:
    """A mark says whether an answer is right.

    Attributes:
        token: Token of the question.
        right: Whether it is; None where no rule can decide.
        answer: The answer that was read off the text; None when there is none of the form wanted.
    """

    token: str
    right: bool | None
    answer: str | None


@value
class SentLabel:
    """A sent label is a label that a service has accepted.

    Attributes:
        token: Token of the question.
        teaches: Whether the suite learns from it.
        reason: Why it does not; empty where it does.
    """

    token: str
    teaches: bool
    reason: str = ""


class ExamJournal:
    """A journal holds one exam.

    Attributes:
        path: Path of its file.
        journal_id: Identifies this taking of the exam: requests and labels are named after it.
        arms: The arms that take part; none before `start`.
        answers: The last answer to each question, by token.
        marks: Marks by token.
        sent: Accepted labels by token.
    """

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self.path = file.path
        self.journal_id = ""
        self.identity: ExamIdentity | None = None
        self.arms: Sequence[ExamArm] = ()
        self.answers: dict[str, ExamAnswer] = {}
        self.marks: dict[str, Mark] = {}
        self.sent: dict[str, SentLabel] = {}
        for entry in file.entries:
            self._add(entry)
        if self.identity is None and file.entries:
            raise ValueError("its first line names no exam")

    def check(self, identity: ExamIdentity) -> None:
        """Return if the journal is new, or is that of this exam.

        Raises:
            UnusableInput: It is that of another exam; the message names both, and where they differ.
        """
        if self.identity is None or self.identity == identity:
            return
        raise UnusableInput(
            f"{self.path} is the journal of {self.identity.name}, and this is {identity.name}; "
            f"{_differences(self.identity, identity)}. Repeat the command of that exam to continue it, or give this "
            "one another file with --journal"
        )

    def start(self, identity: ExamIdentity, arms: Sequence[ExamArm]) -> None:
        """Begin the exam, unless it has begun; then its arms stay."""
        if self.identity is None:
            named = [{"kind": arm.kind, "name": arm.name} for arm in arms]
            self._write("exam", {"journal_id": uuid4().hex, "identity": asdict(identity), "arms": named})

    def discard_if_empty(self) -> None:
        """Delete the file of an exam that has not begun."""
        if self.identity is None:
            self.path.unlink()

    def answered(self, answer: ExamAnswer) -> None:
        """Store an answer durably."""
        self._write("answer", asdict(answer))

    def marked(self, mark: Mark) -> None:
        """Store a mark durably."""
        self._write("mark", asdict(mark))

    def labelled(self, label: SentLabel) -> None:
        """Store durably that a label was accepted."""
        self._write("label", asdict(label))

    def _write(self, kind: str, content: Mapping[str, Any]) -> None:
        self._file.append({kind: content})
        self._add({kind: content})

    def _add(self, entry: Mapping[str, Any]) -> None:
        [(kind, content)] = entry.items()
        if kind == "exam":
            self.journal_id = str(content["journal_id"])
            self.identity = ExamIdentity(**content["identity"])
            self.arms = tuple(ExamArm(kind=ArmKind(each["kind"]), name=each["name"]) for each in content["arms"])
        elif kind == "answer":
            answer = ExamAnswer(**content)
            self.answers[answer.token] = replace(answer, outcome=AnswerOutcome(answer.outcome))
        elif kind == "mark":
            mark = Mark(**content)
            self.marks[mark.token] = mark
        elif kind == "label":
            label = SentLabel(**content)
            self.sent[label.token] = label
        else:
            raise ValueError(f"an entry is a {kind!r}")


def _differences(theirs: ExamIdentity, ours: ExamIdentity) -> str:
    """Say where two exams differ; the draw follows from other options, so the tasks are named only by themselves.

    Example:
        >>> one = ExamIdentity(tasks="d", per_kind=30, seed=7, arms="models", max_tokens=1024)
        >>> _differences(one, replace(one, seed=8, tasks="e")), _differences(one, replace(one, tasks="e"))
        ('seed: 7 there, 8 here', 'its tasks are others')
    """
    named = [each.name for each in fields(ExamIdentity) if each.name != "tasks"]
    found = [
        f"{name.replace('_', ' ')}: {getattr(theirs, name)} there, {getattr(ours, name)} here"
        for name in named
        if getattr(theirs, name) != getattr(ours, name)
    ]
    return "; ".join(found) or "its tasks are others"


@contextmanager
def open_exam(path: Path) -> Iterator[ExamJournal]:
    """Open the journal at `path`, for one process at a time.

    Raises:
        UnusableInput: Another process has it open, it cannot be written, or the file is not a journal of an exam.
    """
    with open_journal_file(path, result=path, kind=KIND) as file:
        try:
            opened = ExamJournal(file)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise not_a_journal(path, KIND, error) from error
        yield opened
