from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.confidence.decision import AssessedAgent, assessed_agent, executor_decision, is_confident
from kernel.confidence.rules import PAPER_RULES, HandOverRule, Rules, TaskMode
from kernel.learning.profiles import ProfileEstimate

RULES = Rules()


def record(agent: str = "a", profile: float = 0.5, observations: int = 0) -> ProfileEstimate:
    return ProfileEstimate(agent=agent, profile=profile, limiting_dimension="d", observations=observations, low=0.0)


def stands(agent: str, verbalized: float | None, profile: float, observations: int = 0) -> AssessedAgent:
    return assessed_agent(verbalized, record(agent, profile, observations), RULES)


def sure(agent: str, confidence: float, threshold: float = 0.5, *, eligible: bool = True) -> AssessedAgent:
    return AssessedAgent(
        agent=agent,
        verbalized=confidence,
        profile=confidence,
        confidence=confidence,
        disagreement=0.0,
        threshold=threshold,
        eligible=eligible,
    )


def test_the_worked_example_goes_to_the_first_peer() -> None:
    gamma = stands("gamma", 0.45, 0.27)

    chosen = executor_decision(gamma, [sure("alpha", 0.72), sure("beta", 0.21)], RULES)

    assert (chosen.mode, chosen.executor) == (TaskMode.DELEGATED, "alpha")


@pytest.mark.parametrize(("confidence", "kept"), [(0.5, True), (0.1 + 0.4, True), (0.4999999999, True), (0.499, False)])
def test_exactly_the_threshold_is_enough(confidence: float, kept: bool) -> None:
    assert is_confident(sure("a", confidence)) is kept


def test_conflict_makes_the_first_agent_hand_over_what_it_would_have_solved() -> None:
    # c = 0.6 * 0.9 + 0.4 * 0.1 = 0.58; delta = 0.8; theta' = 0.5 + 0.2 * 0.8 = 0.66
    first = stands("a", 0.9, 0.1)

    assert (round(first.confidence, 9), round(first.threshold, 9)) == (0.58, 0.66)
    assert not is_confident(first)


def test_peers_are_held_to_theta_and_not_to_their_own_tightened_threshold() -> None:
    # The peer: c = 0.6 * 0.9 + 0.4 * 0.1 = 0.58 is below its own theta' of 0.66, and above theta.
    chosen = executor_decision(sure("a", 0.3), [stands("b", 0.9, 0.1)], RULES)

    assert (chosen.mode, chosen.executor) == (TaskMode.DELEGATED, "b")


def test_by_default_only_a_more_confident_peer_takes_over() -> None:
    first, peer = sure("a", 0.58, threshold=0.66), sure("b", 0.55)

    ours, papers = executor_decision(first, [peer], RULES), executor_decision(first, [peer], PAPER_RULES)

    assert (ours.mode, ours.executor, ours.reason) == (TaskMode.EXECUTED, "a", "no_better_peer")
    assert (papers.mode, papers.executor) == (TaskMode.DELEGATED, "b")


def test_as_confident_is_not_more_confident() -> None:
    first, peer = sure("a", 0.3 + 0.3, threshold=0.7), sure("b", 0.6)

    assert executor_decision(first, [peer], RULES).executor == "a"


def test_without_a_confident_agent_all_collaborate() -> None:
    chosen = executor_decision(sure("a", 0.4), [sure("b", 0.49), sure("c", 0.1)], RULES)

    assert (chosen.mode, chosen.executor, chosen.reason) == (TaskMode.COLLABORATED, "", "no_agent_confident")


def test_the_only_agent_does_what_there_is() -> None:
    assert executor_decision(sure("a", 0.1), [], RULES).reason == "only_agent"


def test_of_equally_confident_peers_the_first_is_taken() -> None:
    assert executor_decision(sure("a", 0.1), [sure("c", 0.1 + 0.6), sure("b", 0.7)], RULES).executor == "c"


@pytest.mark.parametrize(("observations", "eligible"), [(0, False), (4, False), (5, True)])
def test_an_agent_that_cannot_rate_itself_needs_a_record(observations: int, eligible: bool) -> None:
    first = stands("a", None, 0.9, observations)

    assert (first.eligible, is_confident(first)) == (eligible, eligible)
    assert (first.confidence, first.disagreement, first.threshold) == (0.9, None, 0.5)


def test_an_unrated_peer_without_a_record_is_never_chosen() -> None:
    chosen = executor_decision(sure("a", 0.1), [stands("b", None, 0.95, 2), stands("c", 0.6, 0.5)], RULES)

    assert chosen.executor == "c"


def test_an_ineligible_first_agent_keeps_nothing_from_a_peer_that_is_able() -> None:
    first = stands("a", None, 0.9, 2)

    assert executor_decision(first, [sure("b", 0.55)], RULES).executor == "b"


def test_a_profile_that_decides_alone_makes_no_agent_ineligible() -> None:
    assert assessed_agent(None, record(), RULES, profile_alone=True).eligible


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0, 1), st.sampled_from(list(HandOverRule)))
def test_the_agent_that_takes_a_task_over_reaches_theta_and_is_best(
    peers: list[float], first: float, rule: HandOverRule
) -> None:
    standings = [sure(str(place), confidence) for place, confidence in enumerate(peers)]

    chosen = executor_decision(sure("first", first, threshold=0.9), standings, replace(RULES, hand_over_rule=rule))

    if chosen.mode is TaskMode.DELEGATED:
        taken = next(one for one in standings if one.agent == chosen.executor)
        assert round(taken.confidence, 9) >= 0.5
        assert round(taken.confidence, 9) == round(max(peers), 9)
    if chosen.mode is TaskMode.COLLABORATED:
        assert all(round(confidence, 9) < 0.5 for confidence in peers)
