"""A number that REST may send as null can be left out in gRPC: unknown is never zero."""

import types
from typing import Any, Union, get_args, get_origin

from google.protobuf.descriptor import FieldDescriptor

from tests.support.contracts.values import fields_with_types


def test_a_number_or_boolean_that_may_be_unknown_can_be_left_out_of_its_message() -> None:
    numbers = [(field, hint) for field, hint in fields_with_types(of_replies=True) if is_number(field)]

    assert len(numbers) > 300
    assert {field.full_name for field, hint in numbers if may_be_none(hint) and not field.has_presence} == set()


def is_number(field: FieldDescriptor) -> bool:
    texts = (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_MESSAGE, FieldDescriptor.CPPTYPE_ENUM)
    return not field.is_repeated and field.cpp_type not in texts


def may_be_none(hint: Any) -> bool:  # noqa: ANN401 - a type, or a form of typing
    union = get_origin(hint) in (Union, types.UnionType)
    return union and types.NoneType in get_args(hint)
