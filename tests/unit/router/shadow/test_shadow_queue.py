"""What happens to requests that wait for their shadow while the router has no room for it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from chassis.ids import new_id
from chassis.worker import WorkerFailing
from kernel.conversation import Turn
from kernel.envelope import Ceilings, Envelope, Limits
from kernel.outcomes import Outcome
from services.router.service.answering.admission import Admission
from services.router.service.answering.run_in_progress import UNKNOWN_ORIGIN
from services.router.service.answering.values import AnswerRequest
from services.router.service.runs.values import Run
from services.router.service.shadow.traffic import ShadowOptions, ShadowTraffic

NO_CONTEXT: Any = None  # no request gets as far as to be answered here
SHORT = Limits(max_generations=1, max_generated_tokens=1, timeout_ms=10)
REQUEST = AnswerRequest(question="Is it so?")


def run_of(**more: Any) -> Run:  # noqa: ANN401
    return Run(
        run_id=new_id(),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        messages=[Turn(role="user", content="Is it so?")],
        messages_digest="d",
        envelope=Envelope(),
        **{"answer": "It is.", "outcome": Outcome.ANSWERED, **more},
    )


def traffic(served: Admission, clock: Callable[[], float] = lambda: 0.0, **options: Any) -> ShadowTraffic:  # noqa: ANN401
    shadow = ShadowOptions(policy="p1", share=1.0, max_served=0, **options)
    return ShadowTraffic(NO_CONTEXT, served, shadow, clock)


def dropped(reason: str) -> float:
    return REGISTRY.get_sample_value("metacog_shadow_dropped_total", {"reason": reason}) or 0.0


async def test_what_waits_for_too_long_is_dropped() -> None:
    before, now, served = dropped("LATE"), [0.0], Admission()
    shadows = traffic(served, lambda: now[0], late_s=600)
    with served.request():
        shadows.offer(REQUEST, UNKNOWN_ORIGIN, run_of())
        now[0] = 601.0
        shadows.start()
        while dropped("LATE") == before:  # noqa: ASYNC110 - a counter
            await asyncio.sleep(0)

    assert dropped("LATE") - before == 1
    await shadows.close()


async def test_what_waits_is_dropped_when_the_router_closes_and_nothing_is_taken_then() -> None:
    before, served = dropped("CLOSED"), Admission()
    shadows = traffic(served)
    shadows.start()
    with served.request():
        for _ in range(3):
            shadows.offer(REQUEST, UNKNOWN_ORIGIN, run_of())
        await shadows.close()
    shadows.offer(REQUEST, UNKNOWN_ORIGIN, run_of())

    assert dropped("CLOSED") - before == 3
    with pytest.raises(WorkerFailing):
        await shadows.check()


@pytest.mark.parametrize(
    "fields", [{"error_reason": "INTERNAL"}, {"outcome": Outcome.ABSTAINED}, {"answer": " "}], ids=str
)
async def test_a_run_without_an_answer_gets_no_shadow(fields: dict[str, Any]) -> None:
    before, shadows = dropped("FULL"), traffic(Admission(), queue=0)

    shadows.offer(REQUEST, UNKNOWN_ORIGIN, run_of(**fields))
    without = dropped("FULL") - before
    shadows.offer(REQUEST, UNKNOWN_ORIGIN, run_of())

    assert (without, dropped("FULL") - before) == (0, 1)


async def test_what_waits_is_bounded_by_bytes_and_what_is_over_it_is_dropped_and_counted() -> None:
    before, served = dropped("FULL"), Admission()
    shadows = traffic(served, queue_bytes=10_000)
    large = AnswerRequest(question="x" * 4_000)
    with served.request():
        for _ in range(3):
            shadows.offer(large, UNKNOWN_ORIGIN, run_of())
        over = dropped("FULL") - before
        shadows.offer(REQUEST, UNKNOWN_ORIGIN, run_of(answer="y" * 4_000))
        shadows.offer(REQUEST, UNKNOWN_ORIGIN, run_of())
        await shadows.close()

    assert (over, dropped("FULL") - before) == (1, 2)


async def test_a_shadow_run_that_hangs_is_found_and_the_next_one_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    async def hang(request: AnswerRequest, **_: object) -> AsyncGenerator[None, None]:
        begun.append(request.question)
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr("services.router.service.shadow.traffic.answer", hang)
    context: Any = SimpleNamespace(limits={None: SHORT}, ceilings=Ceilings())
    shadows = ShadowTraffic(context, Admission(), ShadowOptions(policy="p1", share=1.0, spare_s=0.05))
    shadows.start()
    for question in ("one", "two"):
        shadows.offer(AnswerRequest(question=question), UNKNOWN_ORIGIN, run_of())

    async with asyncio.timeout(10):
        while len(begun) < 2:  # noqa: ASYNC110 - a list
            await asyncio.sleep(0.001)
    with pytest.raises(WorkerFailing, match=r"RoundTooLong: a shadow run took longer than 0\.06 s"):
        await shadows.check()
    await shadows.close()

    assert begun == ["one", "two"]
