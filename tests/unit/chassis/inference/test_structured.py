import pytest

from inference.errors import UnparsableOutput
from inference.sampling.structured import Document, is_no_json, read_document

RATING = {
    "type": "object",
    "properties": {
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "steps": {"type": "integer", "minimum": 1},
        "kind": {"enum": ["easy", "hard"]},
        "errors": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 2},
        "note": {"anyOf": [{"type": "null"}, {"type": "number", "maximum": 3}]},
    },
    "required": ["confidence"],
}


@pytest.mark.parametrize(
    "text",
    [
        '{"confidence": 0.5}',
        '```json\n{"confidence": 0.5}\n```',
        'Here you are: {"confidence": 0.5} I hope it helps.',
        'I use {braces} and [brackets]. {"confidence": 0.5}',
        '{"why": "not this one"} {"confidence": 0.5}',
        ' \n{"confidence": 0.5}\n{"confidence": 0.9}',
    ],
)
def test_the_first_document_that_fits_is_read(text: str) -> None:
    assert read_document(text, RATING) == Document(content={"confidence": 0.5}, clamped=())


@pytest.mark.parametrize(
    ("text", "content", "clamped"),
    [
        ('{"confidence": 87}', {"confidence": 1}, ("confidence",)),
        ('{"confidence": -0.5, "steps": 0}', {"confidence": 0, "steps": 1}, ("confidence", "steps")),
        ('{"confidence": 1, "steps": 3.0}', {"confidence": 1, "steps": 3}, ()),
        ('{"confidence": 1, "note": 9}', {"confidence": 1, "note": 3}, ("note",)),
        ('{"confidence": 1, "note": null, "more": [1]}', {"confidence": 1, "note": None, "more": [1]}, ()),
    ],
)
def test_numbers_are_moved_into_their_bounds_and_named(
    text: str, content: dict[str, object], clamped: tuple[str, ...]
) -> None:
    assert read_document(text, RATING) == Document(content=content, clamped=clamped)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("I am fairly sure.", "there is no JSON in it"),
        ("", "there is no JSON in it"),
        ('{"confidence": 0.', "there is no JSON in it"),
        ('{"confidence": NaN}', "there is no JSON in it"),
        ("{}", "the document lacks confidence"),
        ("[0.5]", "the document is not of type object"),
        ("0.5", "the document is not of type object"),
        ('{"confidence": "0.5"}', "confidence is not of type number"),
        ('{"confidence": null}', "confidence is not of type number"),
        ('{"confidence": true}', "confidence is not of type number"),
        ('{"confidence": 1, "steps": 1.5}', "steps is not of type integer"),
        ('{"confidence": 1, "kind": "odd"}', "kind is none of the allowed values"),
        ('{"confidence": 1, "errors": ["longer"]}', "errors.0 has size 6, above maxLength 5"),
        ('{"confidence": 1, "errors": ["a", "b", "c"]}', "errors has size 3, above maxItems 2"),
        ('{"confidence": 1, "note": "x"}', "note follows none of its alternatives"),
    ],
)
def test_what_does_not_follow_the_schema_is_an_error_that_states_why(text: str, problem: str) -> None:
    with pytest.raises(UnparsableOutput) as unparsable:
        read_document(text, RATING)

    assert unparsable.value.metadata == {"problem": problem}


def test_a_text_without_documents_is_distinguished_from_one_with_a_wrong_document() -> None:
    assert is_no_json("Fairly sure, 0.8")
    assert not is_no_json('{"other": 1}')
