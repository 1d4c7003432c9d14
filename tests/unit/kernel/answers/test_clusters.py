from collections.abc import Callable
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.answers import AnswerType, agreement, candidate_pairs, canonical, cluster, cluster_forms, entropy

BOOLEAN, CHOICE, NUMBER, TEXT, CODE = AnswerType

ENDED = "The treaty ended the war between both of the kingdoms for good."
PUT_AN_END = "With the treaty an end was put to the war of the two crowns."
STOPPED = "It stopped the fighting of the kingdoms, and it did so for good."
NOT_ENDED = "The treaty did not end the war between both of the kingdoms at all."
LATER = "The treaty ended the war between both of the kingdoms in 1648 for good."
LONG = (ENDED, STOPPED, NOT_ENDED, LATER)

ANSWERS = st.lists(
    st.sampled_from(
        [
            "1,000",
            "1000",
            "0.5",
            "1/2",
            r"\frac{1}{2}",
            "Paris",
            "the Paris",
            "paris.",
            "yes",
            "No",
            "B",
            "(b)",
            "?",
            *LONG,
        ]
    ),
    max_size=12,
)


def always(a: str, b: str) -> bool:
    return True


def test_spellings_of_one_answer_are_one_cluster_under_the_most_frequent_with_a_unit() -> None:
    (first, second) = cluster(["1000", "1,000", "7", "1,000", "$1000"], NUMBER)

    assert (first.representative, first.canonical, first.count) == ("$1000", "1000 USD", 4)
    assert first.spellings == ("$1000", "1,000", "1000")
    assert (second.representative, second.count) == ("7", 1)


def test_of_equally_frequent_spellings_the_first_in_code_point_order_represents() -> None:
    assert cluster(["paris", "Paris", "PARIS"], TEXT)[0].representative == "PARIS"


def test_clusters_of_one_size_stand_in_order_of_their_canonical_forms() -> None:
    assert [one.canonical for one in cluster(["b", "C", "A"], CHOICE)] == ["A", "B", "C"]


def test_invalid_answers_are_in_no_cluster() -> None:
    assert [one.count for one in cluster(["yes", "", "perhaps", "true"], BOOLEAN)] == [2]
    assert cluster([], TEXT) == cluster(["?", ""], TEXT) == ()


def test_mathematics_is_one_cluster_whatever_its_form() -> None:
    clusters = cluster([r"\frac{\sqrt{3}}{2}", "sqrt(3)/2", "2", r"\sqrt{4}", r"\sqrt{5}"], NUMBER)

    assert [one.count for one in clusters] == [2, 2, 1]


def test_canonical_forms_are_not_read_again() -> None:
    assert [(one.canonical, one.count) for one in cluster_forms(["a b", "b", "b", ""], TEXT)] == [("b", 2), ("a b", 1)]
    assert [one.count for one in cluster_forms([r"\sqrt{4}", "2", "3"], NUMBER)] == [2, 1]


def test_aliases_are_one_cluster() -> None:
    assert [
        one.count for one in cluster(["NYC", "New York City", "Boston"], TEXT, aliases=["New York City", "nyc"])
    ] == [2, 1]


def test_long_texts_stand_alone_without_a_judgement() -> None:
    assert len(cluster([ENDED, PUT_AN_END, STOPPED], TEXT)) == 3


def test_long_texts_are_merged_where_the_judgement_and_the_guard_agree() -> None:
    clusters = cluster([ENDED, STOPPED, NOT_ENDED, LATER, ENDED], TEXT, same_meaning=always)

    assert [(one.representative, one.count) for one in clusters] == [(ENDED, 3), (NOT_ENDED, 1), (LATER, 1)]
    assert clusters[0].spellings == (STOPPED, ENDED)


def test_short_texts_are_never_put_to_the_judgement() -> None:
    assert len(cluster(["Paris", "Paname"], TEXT, same_meaning=always)) == 2
    assert candidate_pairs(["Paris", "Paname"], TEXT) == ()


def test_a_chain_of_near_equals_never_merges_its_ends() -> None:
    a, b, c = (
        f"{start} the treaty ended the war between both of the kingdoms."
        for start in ("in all", "in short", "to sum up")
    )
    near = {(a, b), (b, c)}

    clusters = cluster([a, b, c], TEXT, same_meaning=lambda x, y: (x, y) in near)

    assert [one.spellings for one in clusters] == [(a, b), (c,)]


def test_only_pairs_that_were_listed_are_judged() -> None:
    listed = set(candidate_pairs(LONG, TEXT))

    def judged(a: str, b: str) -> bool:
        assert (a, b) in listed
        return True

    cluster([*LONG, *LONG], TEXT, same_meaning=judged)
    assert listed == {(STOPPED, ENDED)}


@pytest.mark.parametrize("answer_type", [BOOLEAN, CHOICE, NUMBER, CODE])
def test_only_texts_are_put_to_the_judgement(answer_type: AnswerType) -> None:
    assert candidate_pairs([ENDED, STOPPED], answer_type) == ()


@settings(deadline=None, max_examples=60)
@given(
    answers=ANSWERS, answer_type=st.sampled_from([BOOLEAN, CHOICE, NUMBER, TEXT]), same=st.sampled_from([None, always])
)
def test_clusters_partition_the_valid_answers(
    answers: list[str], answer_type: AnswerType, same: Callable[[str, str], bool] | None
) -> None:
    clusters = cluster(answers, answer_type, same_meaning=same)

    valid = [answer for answer in answers if canonical(answer, answer_type) is not None]
    spellings = [spelling for one in clusters for spelling in one.spellings]
    assert sum(one.count for one in clusters) == len(valid)
    assert sorted(spellings) == sorted(set(valid))


@settings(deadline=None, max_examples=60)
@given(data=st.data(), answers=ANSWERS, answer_type=st.sampled_from([BOOLEAN, CHOICE, NUMBER, TEXT]))
def test_clusters_do_not_depend_on_the_order_of_the_answers(
    data: st.DataObject, answers: list[str], answer_type: AnswerType
) -> None:
    shuffled = data.draw(st.permutations(answers))

    assert cluster(answers, answer_type, same_meaning=always) == cluster(shuffled, answer_type, same_meaning=always)
    assert candidate_pairs(answers, answer_type) == candidate_pairs(shuffled, answer_type)


def test_agreement_is_the_share_of_the_largest_cluster_and_the_entropy_of_all() -> None:
    agreed = agreement(["4", "4.0", "4", "5", "?"], NUMBER)

    # shares 3/4 and 1/4 of four valid samples: H = 0.75 ln(4/3) + 0.25 ln 4
    assert agreed.share == 0.75
    assert agreed.entropy == pytest.approx(0.75 * log(4 / 3) + 0.25 * log(4))
    assert agreed.normalised_entropy == pytest.approx((0.75 * log(4 / 3) + 0.25 * log(4)) / log(4))
    assert (agreed.valid_count, agreed.invalid_count) == (4, 1)


@pytest.mark.parametrize(
    ("answers", "share", "normalised"),
    [
        (["4"], 1.0, 0.0),
        (["4", "4"], 1.0, 0.0),
        (["4", "5"], 0.5, 1.0),
        (["4", "5", "6"], 1 / 3, 1.0),
        (["?"], None, None),
        ([], None, None),
    ],
)
def test_agreement_runs_from_all_alike_to_no_two_alike(
    answers: list[str], share: float | None, normalised: float | None
) -> None:
    agreed = agreement(answers, NUMBER)

    assert agreed.share == (pytest.approx(share) if share is not None else None)
    assert agreed.normalised_entropy == (pytest.approx(normalised) if normalised is not None else None)


@pytest.mark.parametrize(
    ("counts", "nats"),
    [([1, 1], log(2)), ([5], 0.0), ([5, 0], 0.0), ([2, 1, 1], 1.5 * log(2)), ([], None), ([0], None)],
)
def test_entropy_is_in_nats(counts: list[int], nats: float | None) -> None:
    assert entropy(counts) == (pytest.approx(nats) if nats is not None else None)


@given(counts=st.lists(st.integers(min_value=0, max_value=1000), min_size=1))
def test_entropy_lies_between_nothing_and_the_logarithm_of_the_clusters(counts: list[int]) -> None:
    nats = entropy(counts)

    assert nats is None or 0 <= nats <= log(len(counts)) + 1e-9


@pytest.mark.timeout(60)
def test_many_different_expressions_are_clustered_in_bounded_time() -> None:
    answers = [rf"\sqrt{{{number}}}" for number in range(200, 300)] + ["9" * 10**6, "x" * 10**6]

    assert sum(one.count for one in cluster(answers, NUMBER)) == 100
