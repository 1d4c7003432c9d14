"""How answering ended, and when an answer is less than what was requested."""

from kernel.outcomes import NO_VALID_ANSWER, Outcome, degraded_reasons, is_degraded


def test_an_abstention_has_a_reason_even_where_only_agents_have_theirs() -> None:
    reasons = degraded_reasons(Outcome.ABSTAINED, [], of_agents=["ada failed: no text"])

    assert reasons == ["ada failed: no text", NO_VALID_ANSWER]
    assert is_degraded(reasons)


def test_an_answer_without_reasons_is_not_degraded_and_each_reason_counts_once() -> None:
    assert not is_degraded(degraded_reasons(Outcome.ANSWERED, []))
    assert degraded_reasons(Outcome.ANSWERED, ["late", "cut"], ["late"]) == ["late", "cut"]
