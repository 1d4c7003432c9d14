"""Fakes of models and stores, so that both APIs of a service give the same exact answers."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import orjson

from chassis.idempotency import RequestIdReused
from chassis.serving.wire import from_plain
from configuration.agents import AgentConfig
from inference import Call, CallInOrder, Completion, CompletionSample, Delta, ModelClient, Spend, Structured
from kernel.envelope import StageUsage
from kernel.errors import FeedbackConflict, RunNotFound
from kernel.ledger import Ledger
from kernel.msv import MSV
from kernel.msv.ratings import ORDER
from kernel.outcomes import Outcome
from kernel.policy import Strategy
from kernel.prices import Price
from services.assigner.compose import Parts as AssignerParts
from services.router.compose import Parts, RouterDatabase
from services.router.core.batch_states import BatchStatus, Step
from services.router.core.feedback import is_right
from services.router.errors import BatchNotFound, FileNotFound
from services.router.service.answering.measured_state import AskedQuestion
from services.router.service.answering.strategy_task import StrategyEvent, StrategyResult, StrategyTask
from services.router.service.answering.values import AnswerToken, RelayedEvent
from services.router.service.assessment.composite_assessor import Assessment
from services.router.service.assessment.subject import Subject
from services.router.service.batches.values import (
    ClaimedLine,
    KeptResult,
    ListBatchesRequest,
    ListFilesRequest,
    RequestBatch,
    StoredFile,
)
from services.router.service.feedback.feedback import (
    FeedbackEffects,
    FeedbackLabel,
    SubmitFeedbackResponse,
)
from services.router.service.feedback.outbox import DeliveryResult, OutboxBacklog, OutboxMessage
from services.router.service.runs.values import ListRunsRequest, ListRunsResponse, Run
from tests.contract.calibration_fakes import FakeCalibration, fake_cascades, fake_seen, fake_shadows
from tests.contract.fake_knowledge import FakeLibrary, fake_embeddings
from tests.support.assigner import model_clients_of
from tests.support.stack import NO_SERVER, At, peers

T = TypeVar("T")

AGENTS = tuple(AgentConfig(id=name) for name in ("ada", "ben", "cleo", "dan", "eve"))
RATING = {"logical_consistency": 80.0, "factual_accuracy": 80.0, "contextual_fit": 80.0, "consequence": 10.0}


class FakeAssessor:
    """Measures a calm state where a text has the word, and little in any other text."""

    calls_model = True
    generations = 1
    tokens = 0

    def fits(self, ledger: Ledger) -> bool:
        """Return whether a generation is left for an answer."""
        return ledger.generations_left > 1

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        spend.ledger.book("assess", StageUsage(generations=1, http_calls=1, prompt_tokens=9, completion_tokens=7))
        if "calm" in subject.messages[-1].content:
            return Assessment(msv=MSV(correctness=0.9, conflict=0.1, importance=0.2), assessor="fake")
        reasons = {"conflict": "nobody asked", "importance": "nobody asked", "experience": "nobody asked"}
        return Assessment(msv=MSV(correctness=0.5, unknown_reasons=reasons), assessor="fake")


class FakeSystemOne:
    """Answers `it is 4`, a word at a time."""

    async def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[StrategyEvent, None]:
        spend.ledger.book("system1", StageUsage(generations=1, http_calls=1, prompt_tokens=5, completion_tokens=3))
        for word in ("it", " is", " 4"):
            yield AnswerToken(text=word)
        yield StrategyResult(text="it is 4", model="fake", confidence=0.75, confidence_source="assessment")


class FakeDialectic:
    """Relays one stage, and abstains."""

    async def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[StrategyEvent, None]:
        stage = {"stage": "SYNTHESIS", "role": "SYNTHESIZER", "agent": "dan", "model": "fake", "attempt": 1}
        yield RelayedEvent(name="stage_started", data=stage)
        yield RelayedEvent(name="stage_token", data={"stage": "SYNTHESIS", "text": "well"})
        yield AnswerToken(text="well")
        yield StrategyResult(text="", outcome=Outcome.ABSTAINED, model="fake")


class FakeRuns:
    """Runs in a list, newest first."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    async def add(self, documents: Sequence[bytes]) -> Sequence[bytes]:
        """Store runs."""
        for document in documents:
            self._runs.insert(0, from_plain(orjson.loads(document), Run))
        return ()

    async def get(self, run_id: str, *, key_name: str = "") -> Run:
        """Return the run called `run_id`."""
        for run in self._runs:
            if run.run_id == run_id:
                return run
        raise RunNotFound(f"there is no run {run_id!r}", run_id=run_id)

    async def page(self, request: ListRunsRequest, /, *, key_name: str = "") -> ListRunsResponse:
        """Return the first runs of a strategy, with the name of the last one as token."""
        chosen = [run for run in self._runs if request.strategy in ("", run.strategy)]
        shown = chosen[: request.page_size]
        return ListRunsResponse(runs=shown, next_page_token=shown[-1].run_id if len(chosen) > len(shown) else "")

    async def earlier_winners(self, _asked: AskedQuestion, /) -> Sequence[str]:
        """Return no earlier run."""
        return ()

    async def forget(self, run_id: str, /) -> None:
        """Forget a run."""
        self._runs = [run for run in self._runs if run.run_id != run_id]

    async def by_request(self, _key_name: str, request_id: str, /) -> Run | None:
        """Return the run that answered a request."""
        return next((run for run in self._runs if run.request_id == request_id), None)


class FakeOldRuns:
    """No run is old."""

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[bool]:
        """No other replica deletes."""
        yield True

    async def clock(self) -> datetime:
        """Return the process's own time."""
        return datetime.now(UTC)

    async def older(self, age: timedelta, most: int) -> Sequence[str]:
        """Return no run."""
        return ()

    async def delete(self, run_ids: Sequence[str]) -> None:
        """Delete nothing."""


class FakeOutbox:
    """No message waits."""

    async def take(self, kinds: Sequence[str], *, most: int, lease_s: float) -> Sequence[OutboxMessage]:
        """Return no message."""
        return ()

    async def record(self, results: Sequence[DeliveryResult]) -> None:
        """Record nothing."""

    async def backlog(self, kinds: Sequence[str]) -> OutboxBacklog:
        """Return an empty backlog."""
        return OutboxBacklog(count=0, oldest=None)


class FakeFeedback:
    """Labels in a dict."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[FeedbackLabel, SubmitFeedbackResponse]] = {}

    async def earlier(self, key_name: str, feedback_id: str, digest: str) -> SubmitFeedbackResponse | None:
        """Return the response to the same feedback before."""
        if (key_name, feedback_id) not in self._kept:
            return None
        label, reply = self._kept[key_name, feedback_id]
        if label.request_digest != digest:
            raise RequestIdReused("used before", feedback_id=feedback_id)
        return reply

    async def keep(self, label: FeedbackLabel, effects: Callable[[bool], FeedbackEffects]) -> SubmitFeedbackResponse:
        """Store `label`, unless it contradicts another one."""
        others = [kept for kept, _ in self._kept.values() if kept.run_id == label.run_id]
        if any(is_right(other.score) != is_right(label.score) for other in others):
            raise FeedbackConflict("another label", run_id=label.run_id)
        reply = effects(label.teaches and not others).reply
        self._kept[label.key_name, label.feedback_id] = (label, reply)
        return reply


class FakeFiles:
    """No files."""

    async def begin(self, file: StoredFile, key_name: str, most: int) -> None:
        """Store nothing."""

    async def add_lines(self, file_id: str, first: int, lines: Sequence[bytes]) -> None:
        """Store nothing."""

    async def finish(self, file: StoredFile) -> None:
        """Store nothing."""

    async def find(self, file_id: str, key_name: str) -> StoredFile:
        """Find nothing."""
        raise FileNotFound("no file", file_id=file_id)

    async def page(self, request: ListFilesRequest, key_name: str) -> Sequence[StoredFile]:
        """Return no file."""
        return []

    async def read(self, file_id: str, after: int, most_bytes: int) -> Sequence[tuple[int, bytes]]:
        """Return no line."""
        return []

    async def delete(self, file_id: str, key_name: str) -> None:
        """Find nothing."""
        raise FileNotFound("no file", file_id=file_id)

    async def end_old(self, age: timedelta, most: int) -> int:
        """Find nothing."""
        return 0

    async def delete_gone(self, most_lines: int) -> bool:
        """Delete nothing."""
        return False


class FakeBatches:
    """No batches."""

    async def create(self, batch: RequestBatch, most: int, most_active: int) -> None:
        """Store nothing."""

    async def find(self, batch_id: str, key_name: str) -> RequestBatch:
        """Find nothing."""
        raise BatchNotFound("no batch", batch_id=batch_id)

    async def page(self, request: ListBatchesRequest, key_name: str) -> Sequence[RequestBatch]:
        """Return no batch."""
        return []

    async def cancel(self, batch_id: str, key_name: str) -> RequestBatch:
        """Find nothing."""
        raise BatchNotFound("no batch", batch_id=batch_id)


class FakeSteps:
    """No batches with a step to take."""

    async def claim_step(self, claim: str, lease_s: float) -> tuple[RequestBatch, Step] | None:
        """Return no step."""
        return None

    async def clear_lines(self, batch: RequestBatch, claim: str, lease_s: float) -> bool:
        """Change nothing."""
        return False

    async def add_lines(self, batch: RequestBatch, claim: str, lease_s: float, lines: Mapping[int, str]) -> bool:
        """Change nothing."""
        return False

    async def begin(self, batch: RequestBatch, claim: str, total: int, files: Sequence[str]) -> bool:
        """Change nothing."""
        return False

    async def fail(self, batch: RequestBatch, claim: str, problems: Sequence[Mapping[str, Any]]) -> bool:
        """Change nothing."""
        return False

    async def finalize(self, batch: RequestBatch, claim: str) -> bool:
        """Change nothing."""
        return False

    async def unanswered(self, batch: RequestBatch, most: int) -> Sequence[tuple[int, str]]:
        """Return no line."""
        return []

    async def give_up(self, batch: RequestBatch, claim: str, lease_s: float, errors: Mapping[int, bytes]) -> bool:
        """Change nothing."""
        return False

    async def end(self, batch: RequestBatch, claim: str, status: BatchStatus) -> bool:
        """Change nothing."""
        return False

    async def lines_left(self) -> int:
        """Return none."""
        return 0

    async def delete_old(self, age: timedelta, most: int) -> int:
        """Delete nothing."""
        return 0


class FakeLines:
    """No lines."""

    async def claim(self, claim: str, lease_s: float) -> ClaimedLine | None:
        """Return no line."""
        return None

    async def renew(self, claim: str, names: Collection[tuple[str, int]], lease_s: float) -> None:
        """Renew nothing."""

    async def keep(self, line: ClaimedLine, content: bytes, *, ok: bool) -> KeptResult:
        """Store nothing."""
        return KeptResult(is_stored=False)

    async def release(self, line: ClaimedLine, claim: str, *, pause_s: float, attempts: int, failures: int) -> None:
        """Release nothing."""


def router_parts(home: Path) -> Parts:
    """Return the parts of a router over fakes; it has no model and no database."""
    assessor, runs = FakeAssessor(), FakeRuns()
    return Parts(
        model_clients=model_clients_of(At(f"http://{NO_SERVER}", "fake")),
        database=RouterDatabase(
            runs=runs,
            journal=runs,
            old_runs=FakeOldRuns(),
            feedback=FakeFeedback(),
            outbox=FakeOutbox(),
            knowledge=FakeLibrary(),
            calibration=FakeCalibration(),
            labels=FakeCalibration(),
            activations=fake_seen,
            cascades=fake_cascades,
            shadows=fake_shadows,
            files=FakeFiles(),
            batches=FakeBatches(),
            batch_steps=FakeSteps(),
            batch_files=FakeFiles(),
            batch_lines=FakeLines(),
        ),
        embeddings=fake_embeddings(),
        peers=peers({}),
        home=home,
        assessors={"answers": assessor},
        strategies={Strategy.SYSTEM_ONE: FakeSystemOne(), Strategy.DIALECTIC: FakeDialectic()},
    )


class FakeStream:
    """A text of two words."""

    def __init__(self, stage: str) -> None:
        self._words = ("the ", stage)
        usage = StageUsage(generations=1, http_calls=1, prompt_tokens=10, completion_tokens=2)
        self.usage = usage
        self.completion = Completion(
            samples=(CompletionSample(text=f"the {stage}", tokens=2),), usage=usage, model="fake"
        )

    async def __aiter__(self) -> AsyncIterator[Delta]:
        for word in self._words:
            yield Delta(text=word)

    async def aclose(self) -> None:
        """Nothing to stop."""


class FakeModelClient:
    """Answers the name of the stage, and rates everything alike."""

    model = "fake"
    price: Price | None = None

    async def stream(self, call: Call, spend: Spend) -> FakeStream:
        """The stage's text."""
        made = FakeStream(call.stage)
        spend.ledger.book(call.stage, made.completion.usage)
        return made

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """The whole of the stage's text."""
        return (await self.stream(call, spend)).completion

    async def rate(self, build: CallInOrder, spend: Spend, order: Sequence[str] = ORDER) -> Mapping[str, float]:
        """A rating of four of its seven numbers."""
        return RATING

    async def read(self, call: Call, parse: Callable[[object], T], spend: Spend) -> T:
        """The same rating."""
        return (await self.structured(call, parse, spend)).values[0]

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """The same rating, with its cost; nothing but ratings is asked for."""
        return Structured(values=(cast("T", RATING),), completion=FakeStream(call.stage).completion)


class FakeModelClients:
    """One client for every agent."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client

    def begin_run(self) -> None:
        """Fakes never change."""

    def of(self, agent: AgentConfig) -> ModelClient:
        """Return the client."""
        return self._client

    def assessor(self) -> ModelClient:
        """Return the client."""
        return self._client


def assigner_parts() -> AssignerParts:
    """The parts of an assigner over fakes."""

    async def close() -> None:
        """There is nothing to close."""

    return AssignerParts(
        model_clients=FakeModelClients(FakeModelClient()),
        agents=lambda: AGENTS,
        affect=lambda _: {"intensity": 0.25},
        close=close,
    )
