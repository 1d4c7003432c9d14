"""The classifier asks the encoder once for each question, and never waits long for it."""

from collections.abc import Sequence

import numpy as np
import pytest

from inference import Embedded, Encoder, EncoderUnavailable, KindClassifier, KindVectors, Prototypes
from inference.kinds import KIND_BREAKER, KIND_TIMEOUT_S, MOST_KINDS_KEPT
from kernel.learning.kinds import unit_vectors

WORDS = ("sum", "code", "chess")
KINDS = {"math": ["sum"], "code": ["code"], "nothing": []}


class Words:
    """An encoder whose vectors count words; `away` makes it unreachable.

    Attributes:
        asked: The texts of each request.
        timeouts: The times that they had [s].
    """

    def __init__(self) -> None:
        self.encoder = Encoder(name="words", dimension=len(WORDS))
        self.away = False
        self.asked: list[Sequence[str]] = []
        self.timeouts: list[float] = []

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Embedded:
        self.asked.append(list(texts))
        self.timeouts.append(timeout_s)
        if self.away:
            raise EncoderUnavailable("no encoder")
        vectors = np.array([[text.count(word) + 0.01 for word in WORDS] for text in texts], dtype=np.float32)
        return Embedded(encoder=self.encoder, vectors=vectors)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def adopted(words: Words, **kinds: str) -> KindVectors:
    """Return the vectors of one example of each kind."""
    rows = {kind: [[text.count(word) + 0.01 for word in WORDS]] for kind, text in kinds.items()}
    return KindVectors(encoder=words.encoder, by_kind={kind: unit_vectors(own) for kind, own in rows.items()})


async def test_a_question_is_of_the_kind_of_the_nearest_example() -> None:
    words = Words()
    classifier = KindClassifier(words, KINDS)

    assert (await classifier.kind("which sum is it?", timeout_s=9)).name == "math"
    assert (await classifier.kind("some code", timeout_s=9)).name == "code"
    assert max(words.timeouts) <= KIND_TIMEOUT_S


async def test_the_form_that_is_asked_for_says_nothing_of_the_kind() -> None:
    words = Words()
    classifier = KindClassifier(words, KINDS)
    asked = 'some code\n\nEnd your reply with a line "Final Answer: " and the sum sum sum.'

    assert (await classifier.kind(asked, timeout_s=9)).name == "code"
    assert next(iter(await Prototypes(words).likelihoods(asked, KINDS, timeout_s=9))) == "code"


async def test_examples_are_embedded_once_and_questions_once() -> None:
    words = Words()
    classifier = KindClassifier(words, KINDS)

    for _ in range(3):
        await classifier.kind("which sum is it?", timeout_s=9)
        await classifier.kind("  which sum is it?\n", timeout_s=9)

    assert words.asked == [["which sum is it?"], ["sum", "code"]]


async def test_no_question_waits_for_the_examples_once_they_are_prepared() -> None:
    words = Words()
    classifier = KindClassifier(words, KINDS)
    await classifier.prepare(timeout_s=60)
    words.asked.clear()

    await classifier.kind("a sum", timeout_s=9)

    assert words.asked == [["a sum"]]


async def test_an_adopted_category_is_the_kind_where_it_is_the_likeliest() -> None:
    words = Words()
    classifier = KindClassifier(words, KINDS)
    before = await classifier.kind("chess code", timeout_s=9)

    classifier.use(adopted(words, math="sum", code="code", openings="chess code"))

    assert (before.name, (await classifier.kind("chess code", timeout_s=9)).name) == ("code", "openings")
    assert (await classifier.kind("a sum", timeout_s=9)).name == "math"
    assert words.asked[-1] == ["a sum"]


async def test_vectors_of_another_encoder_are_not_compared() -> None:
    words = Words()
    classifier = KindClassifier(words, KINDS)
    classifier.use(adopted(words, openings="sum"))
    assert (await classifier.kind("a sum", timeout_s=9)).name == "openings"
    words.encoder = Encoder(name="other words", dimension=len(WORDS))

    await classifier.kind("some code", timeout_s=9)

    assert (await classifier.kind("a sum", timeout_s=9)).name == "math"


async def test_reading_the_same_kinds_again_forgets_no_question() -> None:
    words = Words()
    classifier = KindClassifier(words, KINDS)
    classifier.use(adopted(words, openings="sum"))
    await classifier.kind("a sum", timeout_s=9)
    classifier.use(adopted(words, openings="sum"))
    words.asked.clear()

    await classifier.kind("a sum", timeout_s=9)

    assert words.asked == []


async def test_without_the_encoder_the_kind_is_unknown_with_the_reason_and_after_a_while_it_is_not_asked() -> None:
    words, clock = Words(), Clock()
    classifier = KindClassifier(words, KINDS, clock=clock)
    words.away = True
    reasons = [(await classifier.kind(f"sum {at}", timeout_s=9)).unknown_reason for at in range(5)]
    asked = len(words.asked)
    words.away, clock.now = False, KIND_BREAKER.cool_down_s

    assert reasons[0] == "ENCODER_UNAVAILABLE: no encoder"
    assert all(reason.startswith("ENCODER_UNAVAILABLE: ") for reason in reasons)
    assert asked == KIND_BREAKER.failures
    assert (await classifier.kind("sum 0", timeout_s=9)).name == "math"


async def test_requests_with_too_little_time_do_not_keep_the_encoder_from_the_others() -> None:
    words = Words()
    classifier = KindClassifier(words, KINDS, clock=Clock())
    words.away = True  # as it is for whoever has a millisecond
    for at in range(2 * KIND_BREAKER.failures):
        await classifier.kind(f"sum {at}", timeout_s=0.001)
    words.away = False

    assert (await classifier.kind("sum 0", timeout_s=9)).name == "math"


async def test_the_time_left_of_the_request_bounds_the_call() -> None:
    words = Words()

    await KindClassifier(words, KINDS).kind("a sum", timeout_s=0.2)

    assert max(words.timeouts) <= 0.2


@pytest.mark.parametrize("question", ["", "  \n"])
async def test_nothing_is_of_no_kind(question: str) -> None:
    words = Words()

    found = await KindClassifier(words, KINDS).kind(question, timeout_s=9)

    assert (found.name, found.unknown_reason.partition(":")[0], words.asked) == ("", "NO_QUESTION", [])


async def test_kinds_without_any_example_are_unknown() -> None:
    found = await KindClassifier(Words(), {"nothing": []}).kind("a sum", timeout_s=9)

    assert (found.name, found.unknown_reason.partition(":")[0]) == ("", "NO_PROTOTYPES")


async def test_no_more_kinds_are_kept_than_there_is_room_for() -> None:
    words = Words()
    classifier = KindClassifier(words, KINDS)
    for at in range(MOST_KINDS_KEPT + 1):
        await classifier.kind(f"sum {at}", timeout_s=9)
    words.asked.clear()

    await classifier.kind("sum 1", timeout_s=9)
    await classifier.kind("sum 0", timeout_s=9)

    assert words.asked == [["sum 0"]]


async def test_prototypes_are_embedded_again_when_a_text_or_the_encoder_changes() -> None:
    words = Words()
    prototypes = Prototypes(words)
    await prototypes.current(KINDS, timeout_s=9)
    await prototypes.current(KINDS, timeout_s=9)
    changed = await prototypes.current({**KINDS, "nothing": ["chess"]}, timeout_s=9)
    words.encoder = Encoder(name="other words", dimension=len(WORDS))
    other = await prototypes.current(KINDS, timeout_s=9)

    whole = [texts for texts in words.asked if len(texts) > 1]
    assert whole == [["sum", "code"], ["sum", "code", "chess"], ["sum", "code"]]
    assert (len(changed.by_kind["nothing"]), other.encoder) == (1, words.encoder)
