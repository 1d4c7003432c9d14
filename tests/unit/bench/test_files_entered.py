"""What the count of files that a question enters rests on, without services."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType

import pytest
from metacog.common.v1 import turn_pb2

from bench.files_entered import (
    Call,
    Definition,
    Tracer,
    depth_of,
    path_of,
    returns_back,
    returns_by_calls,
    returns_by_edges,
    returns_by_functions,
)

MARKER = "elephant"

INNER = """
def heard(text):
    return len(text)

def counted(number):
    return number

class Keeper:
    def __init__(self, text):
        self.text = text

    def length(self, more):
        return len(self.text) + more

async def later(text):
    await pause()
    return heard(text)
"""

OUTER = """
def asked(body):
    text = body["messages"][0]["content"]
    return inner.heard(text) + inner.counted(3) + back(text)

def back(text):
    return inner.heard(text) + inner.Keeper(text).length(1)
"""


@dataclass(frozen=True)
class Value:
    inside: object


@pytest.mark.parametrize(
    ("held", "depth"),
    [
        (f"an {MARKER}", 0),
        ([f"an {MARKER}"], 1),
        ({MARKER: 1}, 1),
        (MappingProxyType({"messages": ({"content": f"an {MARKER}"},)}), 3),
        (Value(Value(f"an {MARKER}")), 2),
        (turn_pb2.Turn(content=f"an {MARKER}"), 1),
        ("a mouse", None),
        (b"an elephant", None),
        (Value, None),
    ],
)
def test_the_depth_is_how_many_containers_are_around_the_text(held: object, depth: int | None) -> None:
    assert depth_of(held, MARKER) == depth


def test_bytes_are_searched_when_they_are_asked_for() -> None:
    assert depth_of([b"an elephant"], MARKER, (bytes,)) == 1


@pytest.fixture
def traced(tmp_path: Path) -> Callable[[Callable[[], object]], list[Call]]:
    """Calls that a tracer of `tmp_path` keeps."""
    tracer = Tracer(tmp_path, MARKER)

    def calls_of(work: Callable[[], object]) -> list[Call]:
        tracer.switch(on=True)
        before = sys.getprofile()
        sys.setprofile(tracer)
        try:
            work()
        finally:
            sys.setprofile(before)
        return tracer.switch(on=False)

    return calls_of


def _module(folder: Path, name: str, text: str) -> ModuleType:
    file = folder / "package" / f"{name}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_calls_that_bring_the_text_in_are_listed_with_file_function_and_argument(
    tmp_path: Path, traced: Callable[[Callable[[], object]], list[Call]]
) -> None:
    outer = _module(tmp_path, "outer", OUTER)
    outer.inner = _module(tmp_path, "inner", INNER)  # type: ignore[attr-defined]
    by = Definition(depth=4)

    calls = traced(lambda: outer.asked({"messages": [{"content": f"How big is an {MARKER}?"}]}))

    assert [(call.file, call.function, by.arguments(call)) for call in by.entries(calls, answered=float("inf"))] == [
        ("package/outer.py", "asked", ["body"]),
        ("package/inner.py", "heard", ["text"]),
        ("package/outer.py", "back", ["text"]),
        ("package/inner.py", "heard", ["text"]),
        ("package/inner.py", "Keeper.__init__", ["text"]),
    ]
    assert "Keeper.length" in [call.function for call in Definition(own=True).entries(calls, answered=float("inf"))]
    assert "asked" not in [call.function for call in Definition(depth=1).entries(calls, answered=float("inf"))]


def test_a_coroutine_that_resumes_enters_nothing_again(
    tmp_path: Path, traced: Callable[[Callable[[], object]], list[Call]]
) -> None:
    class Pause:
        def __await__(self) -> Iterator[None]:
            yield

    inner = _module(tmp_path, "inner", INNER)
    inner.pause = Pause  # type: ignore[attr-defined]

    def driven() -> None:
        coroutine = inner.later(f"an {MARKER}")
        coroutine.send(None)
        with pytest.raises(StopIteration):
            coroutine.send(None)

    calls = traced(driven)

    entered = Definition().entries(calls, answered=float("inf"))
    assert [call.function for call in entered] == ["later", "heard"]


def called(file: str, function: str, caller: str = "", *, waiting: bool = False) -> Call:
    return Call(
        at=0.0,
        file=file,
        function=function,
        caller=caller,
        waiting=waiting,
        resumed=False,
        beside=False,
        texts={"text": 0},
    )


def test_returns_are_counted_by_calls_functions_pairs_and_ways_back() -> None:
    a, b, c = "a.py", "b.py", "c.py"
    calls = [
        called(a, "start"),
        called(b, "one", a),
        called(b, "two", b),
        called(c, "end", b),
        called(b, "one", a),  # the same once more
        called(c, "end", b),
        called(a, "back", c, waiting=True),
    ]

    assert path_of(calls) == [a, b, c, b, c, a]
    assert returns_by_calls(calls) == 3
    assert returns_by_functions(calls) == 1
    assert returns_by_edges(calls) == 1
    assert returns_back(calls) == 1
