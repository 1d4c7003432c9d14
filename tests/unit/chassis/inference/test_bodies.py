from dataclasses import replace

import pytest

from inference.config import BackendConfig, Endpoint, Retries
from inference.features import Features
from inference.http.timing import pause_s
from inference.sampling.sampler import Portion, body_of, portion_seed, portions_of
from inference.values import Call, WorkKind

HERE = BackendConfig(name="here", endpoints=[Endpoint(url="http://llm")], model="m")
CALL = Call(messages=[{"role": "user", "content": "Hi"}], max_tokens=8, stage="thesis", work=WorkKind.STAGE)
ONE = Portion(offset=0, samples=1, tokens=8)


def test_logprobs_are_never_requested_with_no_alternative() -> None:
    body = body_of(replace(CALL, logprobs=True), ONE, HERE, Features())

    assert (body["logprobs"], body["top_logprobs"]) == (True, 1)


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        (Features(), True),
        (Features(usage_totals=False), True),
        (Features(usage_totals=True), False),
        (Features(logprobs=False), False),
    ],
)
def test_logprobs_are_requested_to_count_several_samples(known: Features, asked: bool) -> None:
    portion = replace(ONE, samples=2)

    assert ("logprobs" in body_of(CALL, portion, HERE, known)) is asked


def test_the_callers_messages_are_left_as_they_are() -> None:
    call = replace(CALL, schema={"type": "object"})

    body_of(call, ONE, HERE, Features(schema=False))

    assert call.messages == [{"role": "user", "content": "Hi"}]


def test_the_first_portion_has_the_callers_seed_and_each_other_its_own() -> None:
    seeds = [portion_seed(7, offset) for offset in range(50)]

    assert seeds[0] == 7
    assert len(set(seeds)) == 50


def test_portions_cover_the_samples_in_order() -> None:
    parts = portions_of(3, 10, 4, 8)

    assert [(part.offset, part.samples) for part in parts] == [(3, 4), (7, 4), (11, 2)]


@pytest.mark.parametrize(
    ("repetition", "requested_s", "random_number", "seconds"),
    [(0, None, 0.0, 0.0), (0, None, 1.0, 0.1), (3, None, 0.5, 0.4), (9, None, 1.0, 2.0), (0, 7.0, 0.5, 7.05)],
)
def test_pauses_double_up_to_a_cap_and_come_after_what_was_asked(
    repetition: int, requested_s: float | None, random_number: float, seconds: float
) -> None:
    assert pause_s(Retries(base_s=0.1, cap_s=2.0), repetition, requested_s, random_number) == pytest.approx(seconds)
