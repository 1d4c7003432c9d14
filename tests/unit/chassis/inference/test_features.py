import logging

import pytest

from inference.features import Features, LearnedFeatures, denied_features, usage_counts_all


@pytest.mark.parametrize(
    ("message", "denied"),
    [
        ("Field 'n': Value must be between 1 <= value <= 4, but got 5", Features(samples_per_call=4)),
        ("'n' : number must be at most 1", Features(samples_per_call=1)),
        ("n > 1 is not supported by this model", Features(samples_per_call=1)),
        ("logprobs is not supported with this model", Features(logprobs=False)),
        ("unknown field: response_format", Features(schema=False)),
        ("Field 'top_k': Value must be between 1 <= value <= 4", None),
        ("JSON schema error at #: unrecognized type nonsense", None),
        ("the weather is bad", None),
    ],
)
def test_a_refusal_teaches_what_it_denies(message: str, denied: Features | None) -> None:
    assert denied_features(message) == denied


@pytest.mark.parametrize(
    ("lengths", "reported", "label"),
    [([40, 40], 80, True), ([40, 40], 82, True), ([40, 40], 40, False), ([40, 40], 41, False), ([1, 0], 1, None)],
)
def test_usage_shows_whether_it_counts_every_sample(lengths: list[int], reported: int, label: bool | None) -> None:
    assert usage_counts_all(lengths, reported) is label


def test_each_thing_learned_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    learned = LearnedFeatures("here", Features())

    for _ in range(3):
        learned.learn(Features(samples_per_call=4, logprobs=True))

    assert learned.now == Features(samples_per_call=4, logprobs=True)
    assert caplog.messages == ["backend here: samples_per_call is 4", "backend here: logprobs is True"]


def test_a_smaller_limit_on_samples_wins() -> None:
    learned = LearnedFeatures("here", Features(samples_per_call=4))

    learned.learn(Features(samples_per_call=8))
    assert learned.now.samples_per_call == 4

    learned.learn(Features(samples_per_call=1))
    assert learned.now.samples_per_call == 1
