import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.sampling.reasoning import ReasoningSplitter, SplitText, split_reasoning, split_text


def streamed(pieces: list[str]) -> SplitText:
    splitter = ReasoningSplitter()
    parts = [*(splitter.feed(piece) for piece in pieces), splitter.finish()]
    return SplitText(reasoning="".join(p.reasoning for p in parts), text="".join(p.text for p in parts))


@pytest.mark.parametrize(
    ("content", "reasoning", "text"),
    [
        ("Four.", "", "Four."),
        ("<think>2+2</think>\n\nFour.", "2+2", "Four."),
        ("\n<think>\n\n</think>\n\nFour.", "", "Four."),
        ("<think>cut off", "cut off", ""),
        ("2+2</think>Four.", "2+2", "Four."),
        ("I say <think>this</think>", "", "I say <think>this</think>"),
        ("a < b", "", "a < b"),
        ("", "", ""),
    ],
)
def test_an_answer_is_parted_from_the_reasoning_before_it(content: str, reasoning: str, text: str) -> None:
    assert split_text(content) == SplitText(reasoning=reasoning, text=text)
    assert split_reasoning(content) == (reasoning, text)


@given(
    st.sampled_from(["<think>a</b> c</think>\n d e", "<thin air", "<think></think>x", "  plain", "<think>never"]),
    st.lists(st.integers(0, 30), max_size=8),
)
def test_a_stream_is_parted_the_same_wherever_it_is_cut(content: str, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]

    parts = streamed([content[start:end] for start, end in itertools.pairwise(places)])

    assert parts == split_text(content)


def test_text_that_cannot_be_a_tag_is_not_held_back() -> None:
    splitter = ReasoningSplitter()

    assert splitter.feed("<th") == SplitText(reasoning="", text="")
    assert splitter.feed("us") == SplitText(reasoning="", text="<thus")
    assert splitter.feed(" on") == SplitText(reasoning="", text=" on")
