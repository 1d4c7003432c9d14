"""The journal of an exam: what it holds after a kill, and to which exam it belongs."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli.exam.arms import ArmKind, ExamArm
from cli.exam.journal import ExamIdentity, Mark, SentLabel, open_exam
from cli.exam.requests import AnswerOutcome, ExamAnswer
from cli.terminal.exits import UnusableInput

IDENTITY = ExamIdentity(tasks="d" * 64, per_kind=30, seed=0, arms="models", max_tokens=1024)
ARMS = (ExamArm(kind=ArmKind.MODEL, name="small"), ExamArm(kind=ArmKind.AGENT, name="ada"))
ANSWER = ExamAnswer(token="t1", arm="model:small", item="i", outcome=AnswerOutcome.ANSWERED, text="4", record="run")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def test_what_was_stored_is_there_after_the_process_has_ended(path: Path) -> None:
    with open_exam(path) as journal:
        journal.start(IDENTITY, ARMS)
        journal.answered(ANSWER)
        journal.marked(Mark(token="t1", right=True, answer="4"))
        journal.labelled(SentLabel(token="t1", teaches=False, reason="frozen"))
        journal_id = journal.journal_id

    with open_exam(path) as again:
        again.check(IDENTITY)
        assert (again.journal_id, again.arms, again.answers) == (journal_id, ARMS, {"t1": ANSWER})
        assert again.answers["t1"].outcome is AnswerOutcome.ANSWERED
        assert again.marks == {"t1": Mark(token="t1", right=True, answer="4")}
        assert again.sent == {"t1": SentLabel(token="t1", teaches=False, reason="frozen")}


def test_the_line_that_a_kill_cut_off_is_left_out(path: Path) -> None:
    with open_exam(path) as journal:
        journal.start(IDENTITY, ARMS)
        journal.answered(ANSWER)
    with path.open("ab") as torn:
        torn.write(b'{"answer": {"token": "t2", "ar')

    with open_exam(path) as again:
        again.answered(replace(ANSWER, token="t3"))
    with open_exam(path) as last:
        assert list(last.answers) == ["t1", "t3"]


def test_the_last_answer_to_a_question_counts(path: Path) -> None:
    with open_exam(path) as journal:
        journal.start(IDENTITY, ARMS)
        journal.answered(replace(ANSWER, outcome=AnswerOutcome.FAILED, text="", error="away"))
        journal.answered(ANSWER)

    with open_exam(path) as again:
        assert again.answers == {"t1": ANSWER}


def test_the_arms_and_the_names_of_an_exam_that_has_begun_stay(path: Path) -> None:
    with open_exam(path) as journal:
        journal.start(IDENTITY, ARMS)
        journal_id = journal.journal_id
        journal.start(IDENTITY, ARMS[:1])

        assert (journal.arms, journal.journal_id) == (ARMS, journal_id)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (replace(IDENTITY, seed=1), "seed: 0 there, 1 here"),
        (replace(IDENTITY, arms="agents", per_kind=5), "per kind: 30 there, 5 here; arms: models there, agents here"),
        (replace(IDENTITY, tasks="e" * 64), "its tasks are others"),
    ],
)
def test_the_journal_of_another_exam_is_rejected_by_name(path: Path, other: ExamIdentity, difference: str) -> None:
    with open_exam(path) as journal:
        journal.start(IDENTITY, ARMS)

    with open_exam(path) as again, pytest.raises(UnusableInput) as rejected:
        again.check(other)

    assert f"is the journal of {IDENTITY.name}, and this is {other.name}" in rejected.value.message
    assert difference in rejected.value.message


def test_one_process_at_a_time_takes_an_exam(path: Path) -> None:
    with open_exam(path), pytest.raises(UnusableInput, match="another process works on"):
        open_exam(path).__enter__()


@pytest.mark.parametrize(
    "content", ["precious", "precious\n", "[1]\n", '{"batch": "b"}\n', '{"answer": {}}\n', '{"a": 1, "b": 2}\n']
)
def test_a_file_that_is_no_journal_is_rejected_and_stays_as_it_is(path: Path, content: str) -> None:
    path.write_text(content)

    with pytest.raises(UnusableInput, match="is not a journal of an exam; move it away"):
        open_exam(path).__enter__()

    assert path.read_text() == content


def test_an_exam_that_has_not_begun_leaves_no_journal(path: Path) -> None:
    with open_exam(path) as journal:
        journal.discard_if_empty()
    assert not path.exists()

    with open_exam(path) as journal:
        journal.start(IDENTITY, ARMS)
        journal.discard_if_empty()
    assert path.exists()
