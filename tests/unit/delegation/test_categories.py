import numpy as np

from services.delegation.core.categories import Vectors, discovered

TOPICS = {
    "chess": ["Which chess opening suits a beginner?", "How does the knight move in chess?", "Name a chess endgame."],
    "bread": ["How long does bread dough rest?", "Which flour makes bread light?", "Why did my bread dough not rise?"],
}


def neighbours(rng: np.random.Generator, centroid: Vectors, count: int) -> Vectors:
    rows = centroid + 0.2 * rng.standard_normal((count, len(centroid))) / np.sqrt(len(centroid))
    scaled: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def test_similar_tasks_make_a_category_named_by_its_distinctive_words() -> None:
    rng = np.random.default_rng(0)
    texts = [text for topic in TOPICS.values() for text in topic * 3]
    centroids = rng.standard_normal((2, 32))
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    vectors = np.concatenate([neighbours(rng, centroid, 9) for centroid in centroids])

    found = discovered(texts, vectors, minimum=5)

    assert [len(each.members) for each in found] == [9, 9]
    assert [each.keywords[0] for each in found] == ["chess", "bread"]
    assert {texts[index] for index in found[0].members} == set(TOPICS["chess"])
    assert found[0].cohesion > 0.9


def test_too_few_or_dissimilar_tasks_make_no_category() -> None:
    rng = np.random.default_rng(1)
    unrelated = rng.standard_normal((20, 64))
    unrelated /= np.linalg.norm(unrelated, axis=1, keepdims=True)

    assert discovered(["a task"] * 20, unrelated, minimum=5) == []
    assert discovered(["a task"] * 2, unrelated[:2], minimum=5) == []
