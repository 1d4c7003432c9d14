from hypothesis import given, settings
from hypothesis import strategies as st

from inference.accounting.counting import MeasuredSample, apportion, count_tokens
from inference.accounting.stream_cost import StreamTally
from inference.sampling.sampler import MEDIA_TOKENS, TEMPLATE_TOKENS, max_prompt_tokens, prompt_characters
from kernel.envelope import StageUsage


def test_a_single_samples_usage_is_its_length() -> None:
    cost = count_tokens(
        [MeasuredSample(characters=99)],
        {"completion_tokens": 6, "prompt_tokens": 36},
        counts_all=None,
        prompt_characters=4,
    )

    assert cost.tokens == (6,)
    assert cost.usage == StageUsage(generations=1, prompt_tokens=36, completion_tokens=6)


def test_lengths_by_logprobs_beat_usage_that_counts_one_sample() -> None:
    samples = [MeasuredSample(characters=9, logprobs=40), MeasuredSample(characters=9, logprobs=38)]

    cost = count_tokens(samples, {"completion_tokens": 40, "prompt_tokens": 5}, counts_all=False, prompt_characters=0)

    assert cost.tokens == (40, 38)
    assert (cost.usage.completion_tokens, cost.usage.estimated) == (78, False)


def test_a_right_total_is_shared_out_by_the_lengths_of_the_texts() -> None:
    samples = [MeasuredSample(characters=10), MeasuredSample(characters=30)]

    cost = count_tokens(samples, {"completion_tokens": 8, "prompt_tokens": 5}, counts_all=True, prompt_characters=0)

    assert cost.tokens == (2, 6)
    assert not cost.usage.estimated


def test_what_the_backend_does_not_count_is_estimated_from_characters() -> None:
    cost = count_tokens(
        [MeasuredSample(characters=10), MeasuredSample(characters=4)], {}, counts_all=None, prompt_characters=9
    )

    assert cost.tokens == (3, 1)
    assert cost.usage == StageUsage(generations=2, prompt_tokens=3, completion_tokens=4, estimated=True)


@given(st.integers(0, 10_000), st.lists(st.integers(0, 500), min_size=1, max_size=20))
def test_parts_add_up_to_the_whole(total: int, weights: list[int]) -> None:
    parts = apportion(total, weights)

    assert sum(parts) == total
    assert min(parts) >= 0
    assert len(parts) == len(weights)


def test_a_prompts_characters_are_those_of_its_texts() -> None:
    messages = [{"content": "four"}, {"content": [{"type": "text", "text": "six!!!"}, {"type": "image_url"}]}, {}]

    assert prompt_characters(messages) == 10


def test_usage_chunks_of_single_choices_add_up() -> None:
    tally = StreamTally(2, prompt_characters=0)

    for tokens in (3, 4):
        assert tally.add_usage({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": tokens}})

    assert tally.cost() == StageUsage(generations=2, prompt_tokens=9, completion_tokens=7)


def test_usage_beside_choices_is_a_running_total() -> None:
    tally = StreamTally(1, prompt_characters=0)

    for tokens in (1, 2, 3):
        chunk = {"choices": [{"index": 0}], "usage": {"prompt_tokens": 9, "completion_tokens": tokens}}
        assert not tally.add_usage(chunk)

    assert tally.cost() == StageUsage(generations=1, prompt_tokens=9, completion_tokens=3)


def test_pieces_are_counted_until_usage_comes() -> None:
    tally = StreamTally(1, prompt_characters=8)
    assert tally.is_empty

    tally.count_piece()
    tally.count_piece()

    assert tally.cost() == StageUsage(generations=1, prompt_tokens=2, completion_tokens=2, estimated=True)


@given(st.text(), st.text())
@settings(deadline=None)
def test_a_prompt_never_has_more_tokens_than_its_texts_have_bytes(system: str, user: str) -> None:
    body = {"messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]}

    assert max_prompt_tokens(body, None) >= len((system + user).encode()) + TEMPLATE_TOKENS


def test_what_tools_say_is_part_of_a_prompt() -> None:
    plain = {"messages": [{"role": "user", "content": "Hi"}]}
    tools = [{"type": "function", "function": {"name": "weather", "description": "d" * 1000}}]

    assert max_prompt_tokens({**plain, "tools": tools}, None) > max_prompt_tokens(plain, None) + 1000


def test_an_image_counts_as_much_as_it_may_however_it_is_sent() -> None:
    def with_image(url: str) -> dict[str, object]:
        content = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
        return {"messages": [{"role": "user", "content": content}]}

    short, long = (max_prompt_tokens(with_image(url), None) for url in ("http://a/b", "data:" + "A" * 100_000))

    assert short == long > MEDIA_TOKENS


def test_a_prompt_never_has_more_tokens_than_the_context() -> None:
    body = {"messages": [{"role": "user", "content": "word " * 10_000}]}

    assert max_prompt_tokens(body, 4096) == 4096
