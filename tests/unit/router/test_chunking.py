from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.router.core.chunking import Span, spans


def cut(text: str, *, most: int, overlap: int = 0) -> list[str]:
    return [text[span.start : span.end] for span in spans(text, most=most, overlap=overlap)]


def test_a_short_text_is_one_chunk() -> None:
    assert cut("One sentence.", most=100, overlap=20) == ["One sentence."]


def test_an_empty_text_has_no_chunks() -> None:
    assert cut("", most=10) == []


def test_a_text_is_cut_between_paragraphs_rather_than_between_sentences() -> None:
    text = "First paragraph.\n\nSecond one. It goes on."

    assert cut(text, most=35) == ["First paragraph.\n\n", "Second one. It goes on."]


def test_a_paragraph_is_cut_between_sentences_rather_than_between_words() -> None:
    assert cut("The first is here. The second is there.", most=30) == ["The first is here. ", "The second is there."]


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ('He said: "No." She left the room.', ['He said: "No." ', "She left the room."]),
        ("Is it? It is! Yes, it truly is.", ["Is it? It is! ", "Yes, it truly is."]),
        ("これは犬です。あれは猫です。それは鳥です。", ["これは犬です。あれは猫です。", "それは鳥です。"]),
        ("version 3.11 and 2.7 are there", ["version 3.11 and ", "2.7 are there"]),
    ],
)
def test_where_a_sentence_ends(text: str, chunks: list[str]) -> None:
    assert cut(text, most=20) == chunks


def test_a_sentence_that_is_too_long_is_cut_between_words() -> None:
    assert cut("one two three four", most=9) == ["one two ", "three ", "four"]


def test_a_word_that_is_too_long_is_cut_anywhere() -> None:
    assert cut("abcdefghij", most=4) == ["abcd", "efgh", "ij"]


def test_neighbours_share_whole_sentences_if_one_fits() -> None:
    text = "One is one. Two is two. Three is three."

    assert cut(text, most=30, overlap=15) == ["One is one. Two is two. ", "Two is two. Three is three."]


def test_neighbours_share_whole_words_if_no_sentence_fits() -> None:
    assert cut("alpha beta gamma delta", most=12, overlap=6) == ["alpha beta ", "beta gamma ", "gamma delta"]


def test_neighbours_share_letters_if_there_are_no_words() -> None:
    assert cut("abcdefghij", most=4, overlap=1) == ["abcd", "defg", "ghij"]


def test_the_rest_of_a_word_is_not_shared() -> None:
    assert cut("zebra zoo\n\nqueen", most=12, overlap=3) == ["zebra zoo\n\n", "queen"]


@pytest.mark.parametrize(("most", "overlap"), [(0, 0), (5, 5), (5, -1), (-1, -2)])
def test_sizes_that_do_not_fit_are_rejected(most: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="cannot share"):
        list(spans("text", most=most, overlap=overlap))


TEXTS = st.text(alphabet=st.sampled_from("ab .!?。\n\t-é"), max_size=300) | st.text(max_size=100)
SIZES = st.integers(1, 40).flatmap(lambda most: st.tuples(st.just(most), st.integers(0, most - 1)))


@given(TEXTS, SIZES)
def test_chunks_cover_the_text_and_repeat_only_what_they_share(text: str, sizes: tuple[int, int]) -> None:
    most, overlap = sizes

    parts = list(spans(text, most=most, overlap=overlap))

    joined, end = "", 0
    for part in parts:
        joined += text[end : part.end]
        end = part.end
    assert joined == text
    assert all(0 < part.end - part.start <= most for part in parts)
    assert all(_follows(one, next_one, overlap) for one, next_one in pairwise(parts))


def _follows(one: Span, next_one: Span, overlap: int) -> bool:
    return one.start < next_one.start <= one.end < next_one.end and one.end - next_one.start <= overlap
