"""The comparison of a shadow policy with what was served."""

from dataclasses import replace

import pytest

from kernel.statistics.intervals import wilson
from kernel.statistics.paired import Comparison
from services.router.service.shadow.comparison import LEAST_PAIRS, comparison_of
from services.router.service.shadow.values import ShadowPair

PAIR = ShadowPair(
    policy="p1",
    strategy="vote",
    answered=True,
    agrees=True,
    cost=3.0,
    duration_ms=50.0,
    served_strategy="system1",
    served_cost=2.0,
    served_duration_ms=20.0,
)
DIFFERS = replace(PAIR, agrees=False)


def test_runs_that_were_stopped_count_nowhere_else() -> None:
    stopped = [
        replace(PAIR, answered=False, agrees=None, error_reason=reason, not_compared="NO_ANSWER")
        for reason in ("CANCELLED", "OVERLOADED", "BACKEND_OVERLOADED")
    ]
    found = comparison_of([PAIR, *stopped])

    assert (found.runs, found.stopped, found.failed, found.answered.share) == (1, 3, 0, 1.0)
    assert (found.not_compared, found.runs_by_strategy, found.cost.pairs) == ({}, {"vote": 1}, 1)


def test_the_share_answered_counts_runs_that_failed_and_that_abstained() -> None:
    failed = replace(PAIR, answered=False, agrees=None, error_reason="BACKEND_REJECTED")
    abstained = replace(PAIR, answered=False, agrees=None)
    found = comparison_of([PAIR, PAIR, failed, abstained])
    interval = wilson(2, 4)

    assert (found.answered.count, found.answered.runs, found.failed) == (2, 4, 1)
    assert (found.answered.low, found.answered.high) == (interval.low, interval.high)


def test_agreement_is_over_the_pairs_of_which_it_is_known() -> None:
    unknown = replace(PAIR, agrees=None, not_compared="LONG_ANSWER")
    found = comparison_of([PAIR, PAIR, PAIR, DIFFERS, unknown, unknown])

    assert (found.agreement.count, found.agreement.runs, found.agreement.share) == (3, 4, 0.75)
    assert found.not_compared == {"LONG_ANSWER": 2}


def test_cost_and_time_are_over_pairs_of_which_both_are_known() -> None:
    deleted = replace(PAIR, served_strategy="", served_cost=None, served_duration_ms=None)
    unpriced = replace(PAIR, cost=None, duration_ms=80.0)
    found = comparison_of([PAIR, replace(PAIR, cost=1.0, duration_ms=20.0), deleted, unpriced])

    assert (found.cost.pairs, found.cost.served, found.cost.shadow, found.cost.ratio) == (2, 4.0, 4.0, 1.0)
    assert (found.time.pairs, found.time.served_ms, found.time.shadow_ms, found.time.difference_ms) == (3, 20, 50, 30)
    assert (found.cost.low, found.time.low_ms) == (None, None)


def test_costs_get_an_interval_from_ten_pairs_on_and_the_same_one_each_time() -> None:
    pairs = [replace(PAIR, cost=float(number)) for number in range(LEAST_PAIRS)]
    found, again = comparison_of(pairs).cost, comparison_of(pairs).cost

    assert found == again
    assert found.ratio == pytest.approx(45 / 20)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 45 / 20 < found.high


def test_served_runs_that_cost_nothing_have_no_ratio() -> None:
    found = comparison_of([replace(PAIR, served_cost=0.0)]).cost

    assert (found.served, found.shadow, found.ratio) == (0.0, 3.0, None)


def test_a_label_of_one_answer_holds_for_the_other_where_they_agree_and_only_there() -> None:
    by_served = replace(PAIR, served_right=True)
    by_shadow = replace(PAIR, right=False)
    one_sided = replace(DIFFERS, served_right=True)
    found = comparison_of([by_served, by_shadow, one_sided]).labels

    assert (found.served.labelled, found.served.right) == (found.shadow.labelled, found.shadow.right) == (2, 1)
    assert (found.labelled_disagreements, found.difference) == (0, None)


def test_six_disagreements_that_the_shadow_wins_decide() -> None:
    wins = replace(DIFFERS, right=True, served_right=False)
    found = comparison_of([*[PAIR] * 6, *[wins] * 6]).labels

    assert (found.comparison, found.enough, found.labels_needed) == (Comparison.BETTER, True, 0)
    assert found.difference == 0.5
    assert found.p == pytest.approx(2 / 64)


def test_five_do_not_and_one_more_is_asked_for() -> None:
    loses = replace(DIFFERS, right=False, served_right=True)
    found = comparison_of([*[PAIR] * 6, *[loses] * 5]).labels

    assert (found.comparison, found.enough, found.labels_needed) == (Comparison.UNDECIDED, False, 1)


def test_a_policy_that_always_agrees_is_the_same_without_labels() -> None:
    found = comparison_of([PAIR] * 200).labels

    assert (found.comparison, found.difference, found.served.labelled) == (Comparison.SAME, 0.0, 0)


def test_only_stopped_runs_leave_everything_unknown() -> None:
    found = comparison_of([replace(PAIR, answered=False, agrees=None, error_reason="CANCELLED")])

    assert (found.runs, found.answered.share, found.agreement.share) == (0, None, None)
    assert (found.cost.ratio, found.time.difference_ms, found.labels.difference) == (None, None, None)
