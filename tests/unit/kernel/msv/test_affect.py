from collections.abc import Iterable, Mapping, Sequence

import pytest

from kernel.msv.affect import EMOTIONS, lexical, vader

CALM = "List the files in the current directory."
OUTCRY = "I hate this horrible disgusting betrayal, it is a cruel nightmare."


def words_of_ours(words: Sequence[str]) -> Mapping[str, Iterable[str]]:
    """A lexicon of four words; `plain` has a sentiment and no emotion."""
    known = {"fear": ["fear", "negative"], "love": ["joy", "positive"], "worry": ["fear"], "plain": ["negative"]}
    return {word: known[word] for word in words if word in known}


def test_under_vader_the_response_is_the_absolute_compound() -> None:
    assert vader(CALM)["intensity"] == 0
    assert vader(OUTCRY)["intensity"] > 0.9


@pytest.mark.parametrize(
    ("text", "intensity"),
    [
        ("", 0.0),
        ("one two three four five", 0.0),
        ("fear two three four five six seven eight nine ten", 0.25),  # 1 / 10 / 0.4
        ("fear love three four five", 1.0),  # 2 / 5 / 0.4
        ("fear fear fear four five", 1.0),
        ("Fear!", 0.5),  # one of five, however short
        ("plain two three four five", 0.0),
        ("fears loved worries four five six seven eight nine ten", 0.75),
    ],
)
def test_under_a_lexicon_the_response_is_the_scaled_share_of_emotional_words(text: str, intensity: float) -> None:
    assert lexical(text, lexicon=words_of_ours)["intensity"] == intensity


def test_every_emotion_is_reported_beside_the_response() -> None:
    felt = lexical("fear love three four five six seven eight nine ten", lexicon=words_of_ours)

    assert {name.removeprefix("emotion.") for name in felt} == {"intensity", "negative", "positive", *EMOTIONS}
    assert {name: level for name, level in felt.items() if level} == {
        "intensity": 0.5,
        "emotion.fear": 0.25,
        "emotion.joy": 0.25,
        "emotion.negative": 0.25,
        "emotion.positive": 0.25,
    }


def test_of_a_long_text_head_and_tail_are_looked_at() -> None:
    assert lexical(f"{'word ' * 300}{'fear ' * 1000}{'word ' * 300}", lexicon=words_of_ours)["intensity"] == 0
