"""This version reads the rows of the next one: stored documents with fields and words that it does not know."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from metacog.arbiter.v1 import arbiter_pb2, vote_pb2
from metacog.assigner.v1 import assigner_pb2
from metacog.delegation.v1 import tasks_pb2
from metacog.router.v1 import router_pb2

from chassis.json_text import dumps
from chassis.serving.stored import RecordUnreadable, enum_from_stored, from_stored, readable
from chassis.serving.wire import from_proto, plain, to_proto
from kernel.confidence.rules import Checker, ConfidenceSource
from kernel.learning.profiles import ProfileChange
from kernel.outcomes import Outcome
from kernel.statistics.recalibration import Method, Point
from kernel.votes.probability import VoteEvidence
from services.arbiter.service.values import StoredArbitration
from services.arbiter.service.voting.values import StoredVote
from services.assigner.service.values import StoredDeliberation
from services.delegation.service.task_records import StoredTask, TaskConfidence
from services.delegation.service.values import AnswerLabel, ProfileUpdate, TaskFeedbackResponse, TaskFinished
from services.router.service.calibration.values import CalibrationMap
from services.router.service.feedback.feedback import SubmitFeedbackResponse
from services.router.service.runs.values import Run
from tests.support.upgrades.next_version import WORD, of_next_version
from tests.unit.chassis.test_wire import full

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LABEL = AnswerLabel(correct=True, checker=Checker.FEEDBACK, detail="", judged_at=NOON)
UPDATE = ProfileUpdate(
    agent="ada",
    dimension="maths",
    sequence=1,
    change=ProfileChange.OUTCOME,
    outcome=1,
    learning_rate=0.1,
    competence_before=0.5,
    competence_after=0.55,
    observations=1,
    applied_at=NOON,
)
# A value of each kind of document that a service stores as JSON and reads back.
STORED: list[Any] = [
    from_proto(full(router_pb2.Run), Run),
    SubmitFeedbackResponse(
        feedback_id="f", run_id="r", teaches=True, calibrates=True, becomes_experience=False, delegation_tasks=1
    ),
    CalibrationMap(
        strategy="system1",
        confidence_source="draft",
        version="system1-draft-1",
        method=Method.ISOTONIC,
        points=[Point(confidence=0.25, calibrated=0.5)],
        observations=100,
        brier_score_before=0.25,
        brier_score_after=0.2,
        fitted_at=NOON,
    ),
    VoteEvidence(agreeing=3, valid=4, kind="number"),
    StoredTask(question="What is 20 + 20?", finished=from_proto(full(tasks_pb2.TaskFinished), TaskFinished)),
    from_proto(full(arbiter_pb2.StoredArbitration), StoredArbitration),
    from_proto(full(vote_pb2.StoredVote), StoredVote),
    from_proto(full(assigner_pb2.StoredDeliberation), StoredDeliberation),
    TaskConfidence(agent="ada", source=ConfidenceSource.VERBALIZED, confidence=0.5, raw=0.6),
    TaskFeedbackResponse(feedback_id="f", task_id="t", label=LABEL, profile_updates=[UPDATE]),
    Point(confidence=0.25, calibrated=0.5),
]


def stored(value: object) -> Any:  # noqa: ANN401 - plain data of any kind
    """Return a value as a service stores it."""
    return orjson.loads(dumps(value))


def read(document: object, kind: type[Any]) -> Any:  # noqa: ANN401 - of any kind
    return from_stored(document, kind, record="test", record_id="1")


@pytest.mark.parametrize("value", STORED, ids=lambda value: type(value).__name__)
def test_fields_of_the_next_version_are_ignored_at_every_level(value: Any) -> None:  # noqa: ANN401
    kind = type(value)
    document = of_next_version(stored(value), kind, new_words=False)
    document.pop("deliberation", None)

    expected = stored(value)
    expected.pop("deliberation", None)
    assert document != expected
    assert read(document, kind) == read(expected, kind)


@pytest.mark.parametrize("value", STORED, ids=lambda value: type(value).__name__)
def test_words_of_the_next_version_stay_as_they_are(value: Any) -> None:  # noqa: ANN401
    kind = type(value)
    document = of_next_version(stored(value), kind)

    again = stored(read(document, kind))

    assert again == _without_added(document)


# Fields of a run that the version before does not have.
NEWEST = {"state", "winner_digest", "catalogue_name", "escalation", "shadow", "confidence_labels", "idempotency"}


def test_a_run_with_all_of_its_fields_is_among_what_is_read() -> None:
    document = stored(STORED[0])

    assert all(document[name] for name in NEWEST)
    assert document["route"]["kind"]
    assert document["state"]["parts"]
    assert document["state"]["unknown_reasons"]


def test_a_run_of_the_version_before_is_read_without_the_newest_fields() -> None:
    document = stored(STORED[0])
    earlier = {name: each for name, each in document.items() if name not in NEWEST}
    earlier["route"] = {name: each for name, each in document["route"].items() if not name.startswith("kind")}

    run = read(earlier, Run)

    assert (run.run_id, run.answer) == (document["run_id"], document["answer"])
    assert (run.state, run.winner_digest, run.catalogue_name, run.escalation, run.route.kind) == (
        None,
        "",
        "",
        None,
        "",
    )


def _without_added(document: Any) -> Any:  # noqa: ANN401 - plain data of any kind
    if isinstance(document, list):
        return [_without_added(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {
        name: each if name == "deliberation" else _without_added(each)
        for name, each in document.items()
        if not name.startswith("added_by")
    }


def test_an_unlisted_word_is_none_of_the_members_and_unspecified_in_grpc() -> None:
    document = {**stored(STORED[0]), "outcome": WORD, "deliberation": None}

    run = read(document, Run)

    assert run.outcome == WORD
    assert run.outcome not in list(Outcome)
    assert plain(to_proto(run, router_pb2.Run))["outcome"] is None
    assert enum_from_stored(WORD, Checker) == WORD


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"document_version": 2}, "document_version is 2; this version reads up to 1"),
        ({"document_version": "later"}, "document_version is 'later'"),
        ({"created_at": "someday"}, "created_at: "),
        ({"envelope": {"timeout_ms": -1}}, "timeout_ms is -1; it must lie in"),
        ({"outcome": 7}, "outcome: "),
    ],
)
def test_what_cannot_be_read_is_named_and_never_the_callers_mistake(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(RecordUnreadable, match="run 'r-1' is stored in a form that this version") as raised:
        from_stored({**stored(STORED[0]), **change}, Run, record="run", record_id="r-1")

    assert problem in raised.value.message
    assert raised.value.code.name == "INTERNAL"
    assert raised.value.metadata == {"record": "run", "record_id": "r-1"}


def test_the_readable_rows_of_a_list_stay() -> None:
    rows = [{"confidence": 0.5, "calibrated": 0.5}, "torn", {"confidence": 0.5}, {"confidence": 1, "calibrated": 1}]

    assert [point.confidence for point in readable(rows, lambda row: read(row, Point))] == [0.5, 1.0]
