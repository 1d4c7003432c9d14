"""Requests of many values are rejected before they are parsed, whatever their texts contain."""

import time
from collections.abc import Sequence

import pytest

from chassis.json_text import MOST_VALUES, InvalidJson, loads_request

MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize("parts", [["{}"], ['{"a":1}'], ["1"], ['""'], [r'"\\\\"'], ["[", "]"]], ids=str)
def test_31_mebibytes_of_small_values_take_no_seconds(parts: Sequence[str]) -> None:
    part = "".join(parts)
    body = f"[{','.join([part] * (31 * MEBIBYTE // (len(part) + 1)))}]".encode()
    began = time.process_time()

    with pytest.raises(InvalidJson, match=r"too many values: more than 250,000"):
        loads_request(body)

    assert time.process_time() - began < 1.5  # parsing alone takes longer


def test_what_stands_in_texts_is_no_value() -> None:
    text = r'so, [it] is: {"} \\"' * 100_000

    assert loads_request(b'{"a, [": ' + _quoted(text) + b', "b": [1, 2]}') == {"a, [": text, "b": [1, 2]}
    assert len(loads_request(f"[{','.join(['1'] * (MOST_VALUES - 2))}]")) == MOST_VALUES - 2


@pytest.mark.parametrize("first", ['"x:"', r'"\\\\"', r'"\\\":"', "1"])
def test_a_name_twice_is_found_beside_texts_with_colons_and_escapes(first: str) -> None:
    assert loads_request(f'{{"a": {first}, "b": 2}}')["b"] == 2
    with pytest.raises(InvalidJson, match="the name 'a' is there twice"):
        loads_request(f'{{"a": {first}, "a": 2}}')


def _quoted(text: str) -> bytes:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'.encode()
