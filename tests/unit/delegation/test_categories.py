import numpy as np

from services.delegation.core.categories import discovered

TOPICS = {
    "chess": ["Which chess opening suits a beginner?", "How does the knight move in chess?", "Name a chess endgame."],
    "bread": ["How long does bread dough rest?", "Which flour makes bread light?", "Why did my bread dough not rise?"],
}


def near(rng: np.random.Generator, middle: np.ndarray, count: int) -> np.ndarray:  # type: ignore[type-arg]
    rows = middle + 0.2 * rng.standard_normal((count, len(middle))) / np.sqrt(len(middle))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_tasks_that_are_alike_make_a_category_named_after_what_sets_them_apart() -> None:
    rng = np.random.default_rng(0)
    texts = [text for topic in TOPICS.values() for text in topic * 3]
    middles = rng.standard_normal((2, 32))
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    vectors = np.concatenate([near(rng, middle, 9) for middle in middles])

    found = discovered(texts, vectors, least=5)

    assert [len(one.members) for one in found] == [9, 9]
    assert [one.keywords[0] for one in found] == ["chess", "bread"]
    assert {texts[place] for place in found[0].members} == set(TOPICS["chess"])
    assert found[0].cohesion > 0.9


def test_a_handful_of_tasks_or_of_strays_makes_none() -> None:
    rng = np.random.default_rng(1)
    strays = rng.standard_normal((20, 64))
    strays /= np.linalg.norm(strays, axis=1, keepdims=True)

    assert discovered(["a task"] * 20, strays, least=5) == []
    assert discovered(["a task"] * 2, strays[:2], least=5) == []
