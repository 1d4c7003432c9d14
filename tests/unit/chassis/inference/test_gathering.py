"""Chunks of a stream put together as the whole reply would have been."""

from collections.abc import Sequence
from typing import Any

import pytest

from inference.streaming.gathering import merge_chunks


def chunk(delta: dict[str, Any], finish_reason: str | None = None, **more: object) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, **more}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def only_choice(chunks: Sequence[dict[str, object]]) -> dict[str, Any]:
    choices = merge_chunks(chunks)["choices"]
    assert isinstance(choices, list)
    choice: dict[str, Any]
    [choice] = choices
    return choice


def message(*chunks: dict[str, object]) -> dict[str, Any]:
    made: dict[str, Any] = only_choice(chunks)["message"]
    return made


def test_texts_are_joined_and_names_are_not() -> None:
    made = message(
        chunk({"role": "assistant", "content": None}),
        chunk({"role": "assistant", "reasoning_content": "hm"}),
        chunk({"content": "one"}),
        chunk({"content": " two"}, "stop"),
    )

    assert made == {"role": "assistant", "content": "one two", "reasoning_content": "hm"}


def calls(place: int, arguments: str, **more: object) -> dict[str, object]:
    return chunk({"tool_calls": [{"index": place, "function": {"arguments": arguments, **more}}]})


def test_tool_calls_are_joined_by_their_place() -> None:
    named = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}

    made = message(
        chunk({"tool_calls": [named]}), calls(0, '{"x":'), calls(1, "{", name="g"), calls(0, "1}"), calls(1, "}")
    )

    assert made["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
        {"function": {"name": "g", "arguments": "{}"}},
    ]


def test_log_probabilities_follow_one_another() -> None:
    chunks = [chunk({"content": token}, logprobs={"content": [{"token": token, "logprob": -1.0}]}) for token in "ab"]

    choice = only_choice(chunks)

    assert [entry["token"] for entry in choice["logprobs"]["content"]] == ["a", "b"]


def test_what_stands_beside_the_choices_is_kept() -> None:
    usage = {"id": "c", "choices": [], "usage": {"total_tokens": 3}, "timings": {"predicted_ms": 1.5}}

    whole = merge_chunks([chunk({"content": "a"}, "length", stop_reason=None), usage])

    assert (whole["id"], whole["object"], whole["model"]) == ("c", "chat.completion", "m")
    assert (whole["usage"], whole["timings"]) == ({"total_tokens": 3}, {"predicted_ms": 1.5})
    assert whole["choices"][0]["finish_reason"] == "length"  # type: ignore[index]


def test_several_choices_are_kept_apart() -> None:
    first, second = chunk({"content": "a"}), chunk({"content": "b"})
    second["choices"][0]["index"] = 1  # type: ignore[index]

    choices: Any = merge_chunks([second, first, second])["choices"]

    assert [(choice["index"], choice["message"]["content"]) for choice in choices] == [(0, "a"), (1, "bb")]


@pytest.mark.parametrize("other", ["text", ["item"], {"name": "item"}, 3, True])
@pytest.mark.parametrize("first", ["text", ["item"], {"name": "item"}, 3, [{"index": 0, "a": "b"}]])
def test_what_changes_its_kind_in_the_middle_of_a_stream_breaks_nothing(first: object, other: object) -> None:
    made = message(chunk({"odd": first}), chunk({"odd": other}), chunk({"content": "well"}))

    assert made["content"] == "well"
    assert type(made["odd"]) is type(other)


def test_a_place_that_is_no_number_is_none() -> None:
    made = message(chunk({"odd": [{"index": [], "a": "b"}]}), chunk({"odd": [{"index": {}, "a": "c"}]}))

    assert made["odd"] == [{"index": [], "a": "b"}, {"index": {}, "a": "c"}]


def test_a_text_in_many_pieces_is_joined_once() -> None:
    """Joined at each piece, it would copy 500 GB, and the test would not end in its time."""
    pieces = 100_000
    made = message(*[chunk({"content": "x" * 100})] * pieces)

    assert len(made["content"]) == 100 * pieces
