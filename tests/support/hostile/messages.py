"""Messages of the contract as a fuzzer makes them: any value in any field, and bytes that are no message any more.

messages(AnswerRequest)                            # a strategy of hypothesis: messages of any content
messages(AnswerRequest, base=request)              # a good request in which a few fields are others
mutated(messages(AnswerRequest))                   # their bytes, changed in a few places
"""

import math
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

# Messages inside messages, at most; lists and maps have few items, so that one call does not take long.
DEPTH = 4
MOST_ITEMS = 3
# Words that get further than chance would, and those that often break something.
WORDS = ("ada", "metacog", "system1", "vote", "dialectic", "draft", "small", "What is 2 + 2?", "4", "user", "assistant")
TRAPS = (
    "",
    "\x00",
    " ",
    "²",
    "\ud7ff\ue000",
    "a" * 5000,
    "</question>",
    "{{ 7 * 7 }}",
    "NaN",
    "-1",
    "../../etc/passwd",
)
DOUBLES = (0.0, -0.0, 1.0, 0.5, -1.0, 1e308, 5e-324, math.inf, -math.inf, math.nan)

_Type = FieldDescriptor


def messages(kind: type[Message], *, base: Message | None = None, depth: int = DEPTH) -> st.SearchStrategy[Message]:
    """Return a strategy of messages of `kind`; with `base`, of that one with a few fields changed or added."""
    return _messages(
        kind, base or kind(), st.booleans() if base is None else st.sampled_from([*[False] * 19, True]), depth
    )


@st.composite
def _messages(
    draw: st.DrawFn, kind: type[Message], base: Message, is_filled: st.SearchStrategy[bool], depth: int
) -> Message:
    message = kind()
    message.CopyFrom(base)
    for field in kind.DESCRIPTOR.fields:
        if (field.message_type is None or depth > 0) and draw(is_filled):
            message.ClearField(field.name)
            _fill(draw, message, field, depth - 1)
    return message


def _fill(draw: st.DrawFn, message: Message, field: Any, depth: int) -> None:  # noqa: ANN401 - untyped
    held = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _fill_map(draw, held, field, depth)
    elif field.is_repeated:
        held.extend(draw(st.lists(_values(field, depth), max_size=MOST_ITEMS)))
    elif field.message_type is not None:
        held.CopyFrom(draw(_values(field, depth)))
    else:
        setattr(message, field.name, draw(_values(field, depth)))


def _fill_map(draw: st.DrawFn, held: Any, field: Any, depth: int) -> None:  # noqa: ANN401 - untyped
    entry = field.message_type.fields_by_name
    for key in draw(st.lists(_values(entry["key"], depth), max_size=MOST_ITEMS, unique=True)):
        item = draw(_values(entry["value"], depth))
        if isinstance(item, Message):
            held[key].CopyFrom(item)
        else:
            held[key] = item


def _values(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    """Return a strategy of what one item of a field may hold."""
    if field.message_type is not None:
        return messages(GetMessageClass(field.message_type), depth=depth)
    if field.enum_type is not None:
        known = [value.number for value in field.enum_type.values]
        return st.sampled_from(known) | st.sampled_from([max(known) + 1, -1, 2**31 - 1])
    match field.type:
        case _Type.TYPE_STRING:
            return st.sampled_from(WORDS) | st.sampled_from(TRAPS) | st.text(max_size=40)
        case _Type.TYPE_BYTES:
            return st.binary(max_size=40)
        case _Type.TYPE_BOOL:
            return st.booleans()
        case _Type.TYPE_DOUBLE | _Type.TYPE_FLOAT:
            return st.floats(0, 1, width=32) | st.sampled_from(DOUBLES) | st.floats(width=32)
    is_unsigned = field.type in (_Type.TYPE_UINT32, _Type.TYPE_UINT64, _Type.TYPE_FIXED32, _Type.TYPE_FIXED64)
    bits = 32 if field.cpp_type in (_Type.CPPTYPE_INT32, _Type.CPPTYPE_UINT32) else 64
    least, most = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.integers(0, 8) | st.sampled_from([least, most]) | st.integers(least, most)


@st.composite
def mutated(draw: st.DrawFn, made: st.SearchStrategy[Message]) -> bytes:
    """Return a strategy of the bytes of messages in which something was replaced, left out, inserted or cut off."""
    data = draw(made).SerializeToString()
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 8)))
        data = data[:begin] + draw(st.binary(max_size=8)) + draw(st.sampled_from([data[end:], data[begin:], b""]))
    return data
