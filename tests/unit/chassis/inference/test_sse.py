import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.http import event_parser

STREAM = (
    b': heartbeat\n\ndata: {"a": "\xc3\xa4"}\n\ndata: one\r\ndata: two\r\n\r\n'
    b"event: error\ndata: broken\n\ndata:tight\r\rdata: [DONE]\n\n"
)
DATA = [None, b'{"a": "\xc3\xa4"}', b"one\ntwo", b"broken", b"tight", b"[DONE]"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_are_the_same_wherever_the_network_cuts_them(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    parser = event_parser.EventParser()

    events = [
        event
        for start, end in itertools.pairwise(places)
        for event in parser.feed(STREAM[start:end])
        if event.raw.strip()
    ]

    assert [event.data for event in events] == DATA
    assert b"".join(event.raw for event in events).replace(b"\n", b"").replace(b"\r", b"") == STREAM.replace(
        b"\n", b""
    ).replace(b"\r", b"")


def test_an_event_keeps_its_bytes_and_its_name() -> None:
    (event,) = event_parser.EventParser().feed(b"event: error\r\ndata: x\r\n\r\n")

    assert event == event_parser.ServerSentEvent(raw=b"event: error\r\ndata: x\r\n\r\n", data=b"x", name="error")


def test_an_event_that_the_end_cut_off_still_counts() -> None:
    parser = event_parser.EventParser()

    assert list(parser.feed(b"data: [DONE]")) == []
    assert [event.data for event in parser.finish()] == [b"[DONE]"]
    assert list(parser.finish()) == []


def test_an_event_without_end_is_no_event_stream() -> None:
    parser = event_parser.EventParser()

    with pytest.raises(event_parser.EventTooLong):
        list(parser.feed(b"x" * (event_parser.MAX_EVENT_BYTES + 1)))
