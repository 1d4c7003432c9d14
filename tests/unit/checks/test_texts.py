"""A field of the contracts with text that does not state what it holds fails `make check`."""

from pathlib import Path

import pytest
from metacog.common.v1 import text_pb2

from chassis.redaction.messages import has_text, held_text
from checks.texts import unstated
from tests.support.contracts.messages import every_message

ROOT = Path(__file__).parents[3]


def written(folder: Path, fields: str) -> Path:
    file = folder / "proto" / "new.proto"
    file.parent.mkdir()
    file.write_text(f'syntax = "proto3";\n\nmessage New {{\n{fields}\n}}\n')
    return folder


@pytest.mark.parametrize(
    "field",
    [
        "string note = 1;",
        "optional string note = 1;",
        "repeated bytes note = 1;",
        "map<string, int32> note = 1;",
        "google.protobuf.Struct note = 1;",
        "string note = 1 [deprecated = true];",
        "string note = 1 // (metacog.common.v1.holds)\n;",
        "oneof check {\n string note = 1;\n }",
    ],
)
def test_a_new_field_with_text_that_states_nothing_is_found(tmp_path: Path, field: str) -> None:
    found = unstated(written(tmp_path, f"  // A remark.\n  {field}"))

    [line] = found["proto/new.proto"]
    assert line.startswith("New.note has text: ")


def test_a_stated_field_and_fields_without_text_are_not_found(tmp_path: Path) -> None:
    fields = "  string note = 1 [\n    (metacog.common.v1.holds) = TEXT_NAME\n  ];\n  int32 count = 2;"

    assert unstated(written(tmp_path, fields)) == {}


def test_every_field_of_the_contracts_states_what_its_texts_are() -> None:
    silent = [
        field.full_name
        for message in every_message()
        for field in message.fields
        if has_text(field) and held_text(field) == text_pb2.TEXT_UNSPECIFIED
    ]

    assert (silent, unstated(ROOT)) == ([], {})
