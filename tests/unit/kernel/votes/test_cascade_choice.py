"""The choice of a cascade's rule from labelled questions, computed by hand."""

from collections.abc import Sequence

import numpy as np
import pytest

from kernel.votes.cascade_choice import (
    LEAST_LABELS,
    MOST_COMPARED,
    CascadeChoice,
    CascadeLimit,
    CascadeRule,
    NoCascadeChoice,
    RecordedAnswer,
    RecordedQuestion,
    candidate_rules,
    choose_cascade,
    gain_over_random,
    labels_needed,
)

SOURCES, STRONG = ("a", "b", "c"), "strong"
COSTS = {"a": 1.0, "b": 1.0, "c": 1.0, STRONG: 20.0}
ANY = CascadeLimit()


def question(keys: str, *, strong: str = "x", right: str = "x", costs: dict[str, float] = COSTS) -> RecordedQuestion:
    """The answers of a, b and c (a blank: invalid) and of the strong model; `right` is the right one."""
    given = dict(zip((*SOURCES, STRONG), (*keys, strong), strict=True))
    return {
        name: RecordedAnswer(key=None if key == " " else key, is_right=key == right, cost=costs.get(name))
        for name, key in given.items()
    }


def mixed(count: int = 200) -> list[RecordedQuestion]:
    """Of ten questions six have three right answers, two two of three, and on two no two agree; one of these x."""
    kinds = ["xxx"] * 6 + ["xxz", "yxx"] + ["xyz", "wyz"]
    return [question(kinds[at % 10]) for at in range(count)]


def chosen(questions: Sequence[RecordedQuestion], limit: CascadeLimit = ANY) -> CascadeChoice:
    found = choose_cascade(questions, candidate_rules(SOURCES, STRONG), limit, np.random.default_rng(0))
    assert isinstance(found, CascadeChoice), found
    return found


def rejected(questions: Sequence[RecordedQuestion], limit: CascadeLimit = ANY) -> NoCascadeChoice:
    found = choose_cascade(questions, candidate_rules(SOURCES, STRONG), limit, np.random.default_rng(0))
    assert isinstance(found, NoCascadeChoice), found
    return found


def test_where_no_two_agree_the_strong_model_is_asked() -> None:
    found = chosen(mixed(), CascadeLimit(share=0.2))

    assert found.rule == CascadeRule(sources=SOURCES, agree=2, escalate=STRONG)
    assert found.questions == 200
    assert found.evidence.share_right.value == 1.0
    assert found.evidence.escalated.value == 0.2
    # two answers on six of ten, and on one of the others; three answers on the rest; the strong one on two of ten
    assert found.evidence.cost.value == pytest.approx((7 * 2 + 3 * 3) / 10 + 0.2 * 20)
    assert found.against_strong.value == 0.0


def test_the_gain_is_over_the_same_votes_with_as_many_escalated_at_random() -> None:
    """The votes alone are right on nine of ten; a random fifth sent to the strong model gives 0.8 · 0.9 + 0.2."""
    found = chosen(mixed(), CascadeLimit(share=0.2))

    assert found.over_random.value == pytest.approx(1 - (0.8 * 0.9 + 0.2))
    assert found.over_random.low is not None
    assert found.over_random.low > 0
    assert gain_over_random(*np.array([[1, 1], [1, 0], [0, 1], [1, 1]])) == pytest.approx(1 - (0.5 * 0.5 + 0.5))


def test_a_rule_over_the_limit_is_not_chosen() -> None:
    found = chosen(mixed(), CascadeLimit(cost=3.0))

    assert not found.rule.escalate
    assert found.rule.agree == 2
    assert found.evidence.share_right.value == 0.9
    assert found.evidence.cost.value == pytest.approx(2.3)
    assert found.over_random.value is None


def test_the_limit_itself_is_within_it() -> None:
    assert chosen(mixed(), CascadeLimit(cost=6.3)).rule.escalate == STRONG
    assert not chosen(mixed(), CascadeLimit(cost=6.29)).rule.escalate


def test_of_equally_good_rules_that_which_escalates_less_then_the_cheaper_one_is_chosen() -> None:
    found = chosen([question("xxx") for _ in range(100)])

    assert found.rule == CascadeRule(sources=("a",), agree=1)
    assert (found.held_out.share_right.value, found.held_out.cost.value) == (1.0, 1.0)


def test_the_choice_is_measured_on_questions_that_it_was_not_made_on() -> None:
    """Which source is right is chance: the best of all rules looks better than it is."""
    rng = np.random.default_rng(5)
    questions = [question("".join("xy"[int(bit)] for bit in rng.integers(2, size=3)), strong="y") for _ in range(100)]

    found = chosen(questions)

    assert found.evidence.share_right.value is not None
    assert found.held_out.share_right.value is not None
    assert found.held_out.share_right.value < found.evidence.share_right.value


def test_too_few_labels_are_rejected_with_the_number_that_is_needed() -> None:
    assert rejected(mixed(LEAST_LABELS - 1)).needed == LEAST_LABELS
    assert (rejected(mixed(150), CascadeLimit(share=0.1)).needed, labels_needed(CascadeLimit(share=0.1))) == (200, 200)
    assert labels_needed(CascadeLimit(share=0.0)) == LEAST_LABELS


def test_a_rule_that_escalates_too_seldom_is_not_compared() -> None:
    """19 of 190 questions divide: too few to say what escalating them is worth."""
    questions = [question("wyz" if at % 10 == 0 else "xxx") for at in range(190)]

    found = chosen(questions)

    assert not found.rule.escalate
    assert found.rare > 0
    assert chosen([*questions, *questions[:10]]).rule.escalate == STRONG  # 20 of 200


def test_a_rule_whose_answer_is_unknown_is_not_compared() -> None:
    """The records of a cascade that stops when two agree do not say what the third or the strong model would give."""
    questions = []
    for whole in mixed():
        keys = [whole[name].key for name in SOURCES]
        asked = SOURCES[: 2 if keys[0] == keys[1] else 3]
        names = asked if len(set(keys[: len(asked)])) < len(asked) else (*asked, STRONG)
        questions.append({name: whole[name] for name in names})

    found = chosen(questions)

    assert found.rule == CascadeRule(sources=SOURCES, agree=2, escalate=STRONG)
    assert found.undetermined > 0
    assert found.over_random.value is None  # the strong model's answer is unknown where two agree
    assert found.against_strong.value is None


def test_a_few_unknown_answers_count_as_wrong() -> None:
    questions = mixed(200)
    questions[0] = {**questions[0], "a": RecordedAnswer(key="x"), "b": RecordedAnswer(key="x")}

    found = chosen(questions, CascadeLimit(share=0.2))

    assert found.rule.escalate == STRONG
    assert found.evidence.share_right.value == pytest.approx(199 / 200)


def test_records_that_say_of_no_rule_what_it_gives_are_rejected() -> None:
    unlabelled = [{name: RecordedAnswer(key="x", cost=1.0) for name in (*SOURCES, STRONG)} for _ in range(100)]

    found = rejected(unlabelled)

    assert (found.needed, "do not say" in found.reason) == (None, True)


def test_a_limit_on_the_cost_needs_recorded_costs_and_one_that_a_rule_can_keep() -> None:
    without = [question(keys, costs={}) for keys in ["xxx"] * 100]

    assert rejected(without, CascadeLimit(cost=1)).reason == "the records do not say what answers cost"
    assert chosen(without).evidence.cost.value is None
    too_low = rejected(mixed(), CascadeLimit(cost=0.5))
    assert too_low.reason == "the cheapest rule costs 1 in the mean, more than the limit of 0.5"


def test_more_sources_than_can_be_compared_are_rejected() -> None:
    with pytest.raises(ValueError, match=f"compare at most {MOST_COMPARED}"):
        candidate_rules([str(number) for number in range(MOST_COMPARED + 1)], STRONG)


def test_every_choice_of_sources_keeps_their_order() -> None:
    rules = candidate_rules(SOURCES, STRONG)

    assert len(rules) == len(set(rules)) == 2 * (3 + 3 + 2)
    assert all(list(rule.sources) == sorted(rule.sources) for rule in rules)
