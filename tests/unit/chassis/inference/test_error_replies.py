import pytest

from inference.errors import (
    BackendFailed,
    BackendUnauthorized,
    BackendUnavailable,
    InferenceError,
    InvalidCall,
    ModelNotFound,
    PromptTooLong,
    RequestRejected,
)
from inference.http.error_replies import MAX_MESSAGE, error_message, error_of, retry_after_s
from inference.http.transport import HttpReply

LLAMACPP_TOO_LONG = (
    b'{"error":{"code":400,"message":"request (3031 tokens) exceeds the available context size (2048 tokens), try '
    b'increasing it","type":"exceed_context_size_error","n_prompt_tokens":3031,"n_ctx":2048}}'
)


def reply(status: int, body: bytes, **headers: str) -> HttpReply:
    return HttpReply(status=status, headers=headers, body=body)


def message(text: str) -> bytes:
    return b'{"error": {"message": "' + text.encode() + b'"}}'


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (400, "This model's maximum context length is 2048 tokens. However, you requested 0", PromptTooLong),
        (400, "'max_tokens' or 'max_completion_tokens' is too large: 5000.", InvalidCall),
        (400, "n must be 1 when using greedy sampling, got 4.", InvalidCall),
        (400, "temperature must be non-negative, got -1.0.", InvalidCall),
        (400, "Unable to generate parser for this template", RequestRejected),
        (401, "Incorrect API key", BackendUnauthorized),
        (403, "forbidden", BackendUnauthorized),
        (404, "The model `x` does not exist.", ModelNotFound),
        (404, "Not Found", RequestRejected),
        (500, "boom", BackendFailed),
        (503, "boom", BackendUnavailable),
        (500, "image input is not supported - hint: you may need to provide the mmproj", RequestRejected),
        (500, "Failed to parse tools: Unsupported tool type", RequestRejected),
    ],
)
def test_an_error_has_the_name_of_its_cause(status: int, text: str, error: type[InferenceError]) -> None:
    assert type(error_of("here", "m", reply(status, message(text)))) is error


def test_the_numbers_of_a_prompt_that_is_too_long_are_in_the_metadata() -> None:
    error = error_of("here", "m", reply(400, LLAMACPP_TOO_LONG))

    assert error.metadata == {"backend": "here", "context_tokens": "2048", "prompt_tokens": "3031"}


def test_greedy_sampling_of_several_names_its_field() -> None:
    error = error_of("here", "m", reply(400, message("n must be 1 when using greedy sampling, got 4.")))

    assert isinstance(error, InvalidCall)
    assert error.field == "n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "a"}}', "a"),
        (b'{"error": "b"}', "b"),
        (b'{"message": "c", "object": "error"}', "c"),
        (b"<html>d</html>\n", "<html>d</html>"),
        (b"\xff", "\ufffd"),
        (b"e" * 9999, "e" * MAX_MESSAGE),
    ],
)
def test_a_backends_words_are_found_in_any_shape_of_error(body: bytes, words: str) -> None:
    assert error_message(body) == words


@pytest.mark.parametrize(
    ("header", "seconds"), [("2", 2.0), ("0.5", 0.5), ("-1", 0.0), ("Wed, 21 Oct 2015 07:28:00 GMT", None)]
)
def test_retry_after_is_read_in_seconds(header: str, seconds: float | None) -> None:
    assert retry_after_s(reply(429, b"", **{"retry-after": header})) == seconds


def test_no_retry_after_is_no_number() -> None:
    assert retry_after_s(reply(429, b"")) is None
