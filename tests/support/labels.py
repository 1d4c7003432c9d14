"""Runs that get feedback, and a delegation service that receives it."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from grpc import aio
from metacog.delegation.v1 import delegation_pb2_grpc, tasks_pb2
from sqlalchemy import create_engine, text

from chassis.ids import new_id
from chassis.json_text import dumps
from chassis.serving.auth import Keyring
from chassis.serving.server import grpc_server
from chassis.serving.wire import to_proto
from inference import Embeddings
from kernel.conversation import Turn
from kernel.envelope import Envelope
from kernel.errors import MetacogError
from kernel.outcomes import Outcome
from services.router.compose import Parts, RunRecords, RunStorageOptions, compose, postgres_database
from services.router.service.knowledge.knowledge import ExperienceStore
from services.router.service.runs.values import Run
from tests.support.assigner import model_clients_of
from tests.support.stack import (
    NO_SERVER,
    At,
    peers,
    quick_storage,
    router_settings,
    storage_paces,
    storage_settings,
)


def run_of(**more: object) -> Run:
    """An answered run with `more`."""
    facts: dict[str, object] = {
        "run_id": new_id(),
        "created_at": datetime.now(UTC),
        "messages": [Turn(role="user", content="Is it so?")],
        "messages_digest": "d" * 64,
        "envelope": Envelope(max_generations=1, max_generated_tokens=2, timeout_ms=3),
        "strategy": "system1",
        "answer": "It is.",
        "outcome": Outcome.ANSWERED,
        "confidence": 0.75,
        "confidence_source": "assessment",
        **more,
    }
    return Run(**facts)  # type: ignore[arg-type]


def delegated(*tasks: str, **more: object) -> Run:
    """A run that delegation answered, by these tasks."""
    account = {"task_id": tasks[0], "profile_updates": [{"task_id": task} for task in tasks]}
    return run_of(strategy="delegation", confidence_source="delegation", deliberation=account, **more)


async def store_runs(records: RunRecords, *runs: Run) -> None:
    """Store runs in the database."""
    assert list(await records.runs.add([dumps(run) for run in runs])) == []


if TYPE_CHECKING:
    Unimplemented = object  # the stub of the generated class calls its methods abstract
else:
    Unimplemented = delegation_pb2_grpc.DelegationServiceServicer  # each method that is left out answers UNIMPLEMENTED


class Delegation(Unimplemented):
    """Accepts feedback on tasks, each identifier once; raises the errors it was given.

    Attributes:
        learned: How often each task has learned, by its name [count].
        calls: How often it was called for each task [count].
        errors: Error by task.
    """

    def __init__(self) -> None:
        self.learned: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.correct: dict[str, bool] = {}
        self.errors: dict[str, MetacogError] = {}
        self._received: set[str] = set()

    async def Process(  # noqa: N802
        self,
        request: tasks_pb2.ProcessRequest,
        _context: Any,  # noqa: ANN401
    ) -> AsyncIterator[tasks_pb2.ProcessResponse]:
        """Answer a task."""
        finished: dict[str, Any] = {
            "task_id": new_id(),
            "answer": "yes",
            "answer_text": "It is so.",
            "mode": "EXECUTED",
            "executor": "alpha",
            "outcome": "ANSWERED",
            "confidence": 0.75,
            "decision": {"mode": "EXECUTED", "executor": "alpha", "reason": "confident"},
            "usage": {"generations": 1, "completion_tokens": 3, "stages": {"solve": {"generations": 1}}},
        }
        yield to_proto({"mode_chosen": finished["decision"]}, tasks_pb2.ProcessResponse)
        yield to_proto({"task_finished": finished}, tasks_pb2.ProcessResponse)

    async def SubmitFeedback(  # noqa: N802
        self,
        request: tasks_pb2.SubmitFeedbackRequest,
        _context: Any,  # noqa: ANN401
    ) -> tasks_pb2.SubmitFeedbackResponse:
        """Learn once."""
        self.calls[request.task_id] += 1
        if request.task_id in self.errors:
            raise self.errors[request.task_id]
        if request.feedback_id not in self._received:
            self._received.add(request.feedback_id)
            self.learned[request.task_id] += 1
            self.correct[request.task_id] = request.correct
        return tasks_pb2.SubmitFeedbackResponse(feedback_id=request.feedback_id, task_id=request.task_id)

    def of(self, prefix: str) -> tuple[dict[str, int], dict[str, int]]:
        """Return how often the tasks with this prefix have learned and were called for; others are of other tests."""
        return _beginning(self.learned, prefix), _beginning(self.calls, prefix)


def _beginning(counts: Counter[str], prefix: str) -> dict[str, int]:
    return {task: count for task, count in counts.items() if task.startswith(prefix)}


@asynccontextmanager
async def serving_delegation(delegation: Delegation, address: str = "127.0.0.1:0") -> AsyncIterator[str]:
    """Serve delegation at an address until the end of the block."""
    server: aio.Server = grpc_server(Keyring())
    servicer = cast("delegation_pb2_grpc.DelegationServiceServicer", delegation)  # at runtime it is one
    delegation_pb2_grpc.add_DelegationServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port(address)
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


@asynccontextmanager
async def records_at(
    database: str,
    spool: Path,
    *,
    delegation: str = NO_SERVER,
    storage: RunStorageOptions | None = None,
    experience: ExperienceStore | None = None,
) -> AsyncIterator[RunRecords]:
    """Run one replica of the router without its APIs; yield its records of runs and feedback."""
    storage = storage or quick_storage(spool)
    parts = Parts(
        model_clients=model_clients_of(At(f"http://{NO_SERVER}", "none")),
        database=postgres_database(database),
        embeddings=Embeddings(f"http://{NO_SERVER}/v1"),
        has_encoder=False,
        peers=peers({"delegation": delegation}),
        home=spool,
        experience=experience,
        paces=storage_paces(storage),
    )
    service = compose(router_settings(**storage_settings(storage)), parts)
    service.start()
    yield service.records
    await service.close()


# What labels prove takes fifty of them: these columns of one are stored for as many questions.
COPIED = "key_name, version, model, kind, origin, agreement, is_right, created_at"


def copy_promise_labels(database_url: str, question: str, count: int) -> None:
    """Store what was labelled of a question for others too, until there are `count` questions."""
    copies = f"SELECT md5(:question || n), {COPIED} FROM router.promise_labels, generate_series(2, :count) n"
    adding = f"INSERT INTO router.promise_labels (question, {COPIED}) {copies} WHERE question = :question ORDER BY n"
    with create_engine(database_url).begin() as connection:
        connection.execute(text(adding), {"question": question, "count": count})
