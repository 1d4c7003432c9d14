"""What a service of the suite may cost on a request's behalf, and what it did cost."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
from google.protobuf.message import Message
from metacog.assigner.v1 import assigner_pb2

from chassis.errors import PeerUnavailable
from chassis.serving.peer import NOT_SENT, REPLIES, Peer
from chassis.serving.wire import to_proto
from inference import Spend
from kernel.activation import Route
from kernel.conversation import Turn
from kernel.envelope import Envelope, Limits, StageUsage, Usage
from kernel.errors import MetacogError
from kernel.prices import Price, units_of
from services.router.relay import Relay, RelayedCall
from services.router.service.answering.strategy_task import StrategyResult, StrategyTask
from services.router.service.answering.values import AnswerRequest
from services.router.service.assessment.values import Routed

ROUTED = Routed(
    system=Route.SYSTEM_TWO,
    strategy="dialectic",
    activation=None,
    msv=None,
    reason="requested",
    config_version="paper",
    assessor="",
    usage=Usage(),
    duration_ms=0.0,
)
THESIS = StageUsage(generations=1, prompt_tokens=1000, completion_tokens=50, cost=0.0011)


class Model:
    """System 1's model: a prompt token costs 1e-6, a generated one 2e-6."""

    model = "m"
    price: Price | None = Price(prompt=1.0, completion=2.0)


class Service:
    """A service that ends as given, and notes the envelope that it gets."""

    name = "assigner"

    def __init__(self, ends: Usage | MetacogError) -> None:
        self._ends = ends
        self.granted = Envelope()

    def asked(self, _task: StrategyTask, envelope: Envelope) -> Any:  # noqa: ANN401 - any message will do
        """The request."""
        self.granted = envelope

    async def stream(self, _method: object, _request: object, *, timeout_s: float) -> AsyncIterator[Message]:
        if isinstance(self._ends, MetacogError):
            raise self._ends
        yield to_proto({"deliberation_finished": {"usage": self._ends}}, assigner_pb2.DeliberateResponse)


async def relayed(service: Service, spend: Spend, *, fallback: bool = False) -> None:
    call = RelayedCall(
        method=None,
        request=service.asked,
        finished="deliberation_finished",
        own=frozenset(),
        token=lambda _name, _data: "",
        result=lambda _data: StrategyResult(text=""),
    )
    turns = [Turn(role="user", content="?")]
    task = StrategyTask(
        request=AnswerRequest(question="?", fallback=fallback), messages=turns, route=ROUTED, run_id="run"
    )
    async for _ in Relay(cast(Peer, service), call)(task, spend):
        pass


def spend_of(max_cost: float | None = 0.01) -> Spend:
    limits = Limits(max_generations=8, max_generated_tokens=4096, timeout_ms=10_000, max_cost=max_cost)
    return Spend(limits, models=[Model()])


async def test_a_service_is_granted_what_is_left_and_what_it_cost_is_booked_by_stage() -> None:
    spent = Usage(stages={"thesis": THESIS}, unknown_generations=1, unknown_tokens=9, unknown_cost=0.002)
    service, spend = Service(spent), spend_of()

    await relayed(service, spend)

    assert service.granted.max_cost == 0.01
    assert spend.ledger.cost_left == units_of(0.01 - 0.0011 - 0.002)
    usage = spend.ledger.usage()
    assert (usage.stages, usage.cost, usage.unknown_cost) == ({"thesis": THESIS}, 0.0011, 0.002)


@pytest.mark.parametrize(
    ("max_cost", "kept"),
    [
        # 512 tokens at 2e-6, and a prompt of 300 bytes or so at 1e-6, of which the template's 256 are the most
        (1.0, pytest.approx(512 * 2e-6 + 300e-6, abs=20e-6)),
        # the prompt, and a quarter of the 0.0007 or so that are left after it
        (0.001, pytest.approx(300e-6 + 175e-6, abs=20e-6)),
    ],
)
async def test_the_cost_of_a_fallback_is_reserved(max_cost: float, kept: float) -> None:
    service, spend = Service(Usage()), spend_of(max_cost)

    await relayed(service, spend, fallback=True)

    assert service.granted.max_cost is not None
    assert max_cost - service.granted.max_cost == kept


async def test_a_service_whose_outcome_is_unknown_has_spent_all_it_was_granted() -> None:
    service, spend = Service(PeerUnavailable("it died", **{REPLIES: "3"})), spend_of()

    with pytest.raises(PeerUnavailable):
        await relayed(service, spend)

    assert spend.ledger.cost_left == 0
    assert spend.ledger.usage().unknown_cost == 0.01


async def test_a_service_that_was_never_reached_has_cost_nothing() -> None:
    service, spend = Service(PeerUnavailable("nobody is there", **{REPLIES: NOT_SENT})), spend_of()

    with pytest.raises(PeerUnavailable):
        await relayed(service, spend)

    assert spend.ledger.cost_left == units_of(0.01)


async def test_a_service_that_does_not_know_its_cost_leaves_nothing_of_a_limit() -> None:
    service = Service(Usage(stages={"thesis": replace(THESIS, cost=None)}))
    spend = spend_of()

    await relayed(service, spend)

    assert spend.ledger.cost_left == 0
    assert spend.ledger.usage().cost is None


async def test_without_a_limit_nothing_is_granted_and_costs_are_reported_all_the_same() -> None:
    service, spend = Service(Usage(stages={"thesis": THESIS})), spend_of(None)

    await relayed(service, spend)

    assert service.granted.max_cost is None
    assert (spend.ledger.usage().cost, spend.ledger.usage().unknown_cost) == (0.0011, 0.0)
