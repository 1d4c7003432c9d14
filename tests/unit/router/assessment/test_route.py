"""What is decided before anything is measured."""

from dataclasses import replace

import pytest

from inference import Spend
from kernel.activation import Route
from kernel.conversation import Turn
from kernel.envelope import Limits
from kernel.errors import MalformedRequest
from kernel.ledger import Ledger
from kernel.msv import MSV
from services.router.service.assessment.assessors import Assessors
from services.router.service.assessment.composite_assessor import Assessment
from services.router.service.assessment.routing import (
    RoutingConfig,
    RoutingContext,
    RoutingQuestion,
    decide,
    version_of,
)
from services.router.service.assessment.subject import Subject
from services.router.service.gateway.chat_request import parsed_request

ASKED = Subject(messages=(Turn(role="user", content="Is it so?"),))


class Troubled:
    """An assessor of one rating that always asks for deliberation."""

    calls_model = True
    generations = 1
    tokens = 0

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        return Assessment(msv=MSV(correctness=0.0, conflict=1.0, importance=1.0), assessor="fake")

    def fits(self, ledger: Ledger) -> bool:
        return ledger.generations_left > 1 and ledger.tokens_left >= 128


ROUTING = RoutingContext(config=RoutingConfig(), assessors=Assessors(by_name={"fake": Troubled()}, default="fake"))


def spend(generations: int, tokens: int) -> Spend:
    return Spend(Limits(max_generations=generations, max_generated_tokens=tokens, timeout_ms=1000))


@pytest.mark.parametrize(("generations", "tokens"), [(1, 4096), (32, 127)])
async def test_an_envelope_with_room_for_one_call_gets_a_single_pass_call(generations: int, tokens: int) -> None:
    routed = (await decide(RoutingQuestion(subject=ASKED), spend(generations, tokens), ROUTING)).routed

    assert (routed.system, routed.reason, routed.msv) == (Route.SYSTEM_ONE, "envelope", None)


async def test_an_envelope_with_room_for_a_rating_and_an_answer_is_assessed() -> None:
    routed = (await decide(RoutingQuestion(subject=ASKED), spend(2, 128), ROUTING)).routed

    assert (routed.system, routed.reason) == (Route.SYSTEM_TWO, "activation")


def test_the_papers_configuration_is_called_so_and_no_other_is() -> None:
    others = [replace(RoutingConfig(), threshold=0.5), replace(RoutingConfig(), undetermined=Route.SYSTEM_ONE)]

    assert version_of(RoutingConfig()) == "paper"
    assert len({version_of(config) for config in (RoutingConfig(), *others)}) == 3


@pytest.mark.parametrize("more", [{"n": 2}, {"logprobs": True}, {"tools": [{"type": "function"}]}])
def test_an_answer_of_more_than_one_text_cannot_be_repeated_by_its_request_id(more: dict[str, object]) -> None:
    body = {"model": "metacog", "messages": [{"role": "user", "content": "?"}], "metacog": {"request_id": "r"}, **more}

    with pytest.raises(MalformedRequest, match="request_id"):
        parsed_request(body, {})
