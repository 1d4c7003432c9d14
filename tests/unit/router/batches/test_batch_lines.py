"""Files are cut into lines however they come, and each line is checked by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.router.core.batch_lines import (
    MOST_PROBLEMS,
    LineChecker,
    LineSplitter,
    LineTooLong,
    line_id,
    listed_problems,
    result_line,
    unanswered_line,
)

URL = "/v1/chat/completions"
GOOD = {"custom_id": "a", "method": "POST", "url": URL, "body": {"model": "metacog"}}


@given(st.lists(st.binary(max_size=20)), st.binary(max_size=40))
def test_the_lines_are_the_file_whatever_pieces_it_comes_in(pieces: list[bytes], last: bytes) -> None:
    whole = b"".join([*pieces, last])
    splitter = LineSplitter(1000)

    lines = [line for piece in (*pieces, last) for line in splitter.lines(piece)] + list(splitter.rest())

    assert b"".join(lines) == whole
    assert lines == _by_newline(whole)
    assert splitter.count == len(lines)


def _by_newline(whole: bytes) -> list[bytes]:
    *full, rest = whole.split(b"\n")
    return [line + b"\n" for line in full] + ([rest] if rest else [])


def test_a_line_that_is_too_long_is_named_before_it_is_whole() -> None:
    splitter = LineSplitter(4)
    assert list(splitter.lines(b"abc\n")) == [b"abc\n"]

    with pytest.raises(LineTooLong) as error:
        list(splitter.lines(b"abcde"))

    assert error.value.line == 2


def test_a_good_line_has_its_name_and_no_problem() -> None:
    checker = LineChecker(URL)

    assert checker.check(1, GOOD) == "a"
    assert checker.problems == []


def test_a_name_that_is_there_twice_is_named_at_its_second_place() -> None:
    checker = LineChecker(URL)
    checker.check(1, GOOD)

    assert checker.check(5, GOOD) is None
    assert listed_problems(checker.problems) == [
        {
            "code": "duplicate_custom_id",
            "line": 5,
            "message": "custom_id: 'a' is there twice in the file",
            "param": "custom_id",
        }
    ]


def test_everything_that_is_wrong_with_a_line_is_named() -> None:
    checker = LineChecker(URL)

    assert checker.check(2, {"method": "PUT", "url": "/v1/messages", "body": [], "colour": "red"}) is None
    assert [(one.code, one.line, one.param) for one in checker.problems] == [
        ("missing_required_parameter", 2, "custom_id"),
        ("invalid_method", 2, "method"),
        ("invalid_url", 2, "url"),
        ("invalid_body", 2, "body"),
        ("unknown_parameter", 2, "colour"),
    ]


def test_the_problems_of_a_file_are_bounded() -> None:
    checker = LineChecker(URL)

    for number in range(1000):
        checker.check(number, {"custom_id": "x" * 10_000, "method": "y" * 10_000})

    assert len(checker.problems) == MOST_PROBLEMS
    assert max(len(one.message) for one in checker.problems) < 300


def test_a_line_has_the_same_name_however_often_it_is_answered() -> None:
    replied = result_line("batch_1", 3, "a", status=200, request_id="r", body={"id": "x"})
    left = unanswered_line("batch_1", 3, "a", code="batch_expired", message="late")

    assert replied["id"] == left["id"] == line_id("batch_1", 3) == "batch_req_1-3"
    assert replied["response"] == {"status_code": 200, "request_id": "r", "body": {"id": "x"}}
    assert (left["response"], left["error"]) == (None, {"code": "batch_expired", "message": "late"})
