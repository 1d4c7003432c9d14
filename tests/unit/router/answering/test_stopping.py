"""Where an answer ends, whatever pieces it comes in."""

from collections.abc import AsyncGenerator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.router.core.stop_texts import StopFilter, before_stop
from services.router.service.answering.stop_texts import until_stop
from services.router.service.answering.strategy_task import StrategyEvent, StrategyResult
from services.router.service.answering.values import AnswerToken, RelayedEvent

WORDS = st.text(alphabet="abE N", max_size=12)


def metacog_field(pieces: Sequence[str], stops: Sequence[str]) -> str:
    until = StopFilter(stops)
    return "".join([*(until.passed(piece) for piece in pieces), until.rest()])


def test_a_text_without_a_stop_passes_whole() -> None:
    assert metacog_field(["one ", "two"], ["END"]) == "one two"


def test_a_stop_that_two_pieces_share_ends_the_text_before_it() -> None:
    assert metacog_field(["one E", "N", "D two"], ["END"]) == "one "


def test_what_only_looks_like_a_stop_is_held_back_and_then_passed() -> None:
    until = StopFilter(["END"])

    assert [until.passed("one EN"), until.passed("Dless"), until.stopped] == ["one ", "", True]
    assert metacog_field(["one EN", "E two"], ["END"]) == "one ENE two"


def test_a_beginning_of_a_stop_at_the_very_end_is_text() -> None:
    assert metacog_field(["one EN"], ["END"]) == "one EN"


def test_the_first_of_several_stops_ends_the_text() -> None:
    assert metacog_field(["a, b; c"], [";", ","]) == "a"
    assert before_stop("a; b", [",", ";"]) == "a"


def test_nothing_passes_after_a_stop() -> None:
    until = StopFilter(["."])
    until.passed("a. b")

    assert (until.passed("c"), until.rest()) == ("", "")


@given(pieces=st.lists(WORDS, max_size=6), stops=st.lists(st.sampled_from(["END", "a", "bE", " ", "NN"]), max_size=3))
def test_how_a_text_is_cut_into_pieces_changes_nothing(pieces: list[str], stops: list[str]) -> None:
    whole = "".join(pieces)
    kept = before_stop(whole, stops)

    assert metacog_field(pieces, stops) == (whole if kept is None else kept)


@given(pieces=st.lists(WORDS, max_size=6))
def test_no_more_is_held_back_than_may_begin_a_stop(pieces: list[str]) -> None:
    until = StopFilter(["END"])
    passed = "".join(until.passed(piece) for piece in pieces)

    assert until.stopped or "".join(pieces).removeprefix(passed) in ("", "E", "EN")


# Over the events of a deliberation


async def events(*items: StrategyEvent) -> AsyncGenerator[StrategyEvent, None]:
    for item in items:
        yield item


async def read(*items: StrategyEvent, stops: Sequence[str] = ("END",)) -> tuple[str, StrategyResult]:
    """Return the streamed text, and the result."""
    seen = [item async for item in until_stop(events(*items), stops)]
    answered = seen[-1]
    assert isinstance(answered, StrategyResult)
    return "".join(item.text for item in seen if isinstance(item, AnswerToken)), answered


async def test_stream_and_answer_of_a_deliberation_end_alike() -> None:
    streamed, answered = await read(
        AnswerToken(text="\n one E"),
        AnswerToken(text="ND two"),
        StrategyResult(text="one END two", finish_reason="length"),
    )

    assert (streamed, answered.text, answered.finish_reason) == ("one ", "one ", "stop")


async def test_an_answer_without_a_stop_keeps_its_end() -> None:
    streamed, answered = await read(AnswerToken(text="one EN"), StrategyResult(text="one EN", finish_reason="length"))

    assert (streamed, answered.text, answered.finish_reason) == ("one EN", "one EN", "length")


@pytest.mark.parametrize("stage", ["SYNTHESIS", "THESIS"])
async def test_only_another_attempt_at_the_final_text_restarts_the_answer(stage: str) -> None:
    again = RelayedEvent(name="stage_started", data={"stage": stage, "attempt": 2})

    streamed, _ = await read(AnswerToken(text="a END"), again, AnswerToken(text="b"), StrategyResult(text="b"))

    assert streamed == ("a b" if stage == "SYNTHESIS" else "a ")


async def test_the_text_of_another_agent_restarts_the_answer() -> None:
    again = RelayedEvent(name="mode_chosen", data={"reason": "agent_failed"})

    streamed, _ = await read(AnswerToken(text="a END"), again, AnswerToken(text="b"), StrategyResult(text="b"))

    assert streamed == "a b"
