from bench.assignment import NAMES, SHARED, gained

QUERYS, AGENTS = ("experience", "importance", "emotional_response"), ("importance", "emotional_response")


def test_agents_that_share_everything_are_a_tie_and_nothing_is_gained() -> None:
    gain = gained(NAMES, questions=20)

    assert (gain.mean, gain.ties) == (0.0, 1.0)


def test_the_more_agents_have_of_their_own_the_more_the_best_assignment_gains() -> None:
    of_query, of_agent, everything = (gained(shared, questions=400) for shared in (QUERYS, AGENTS, ()))

    assert of_query.mean + of_query.error < of_agent.mean - of_agent.error
    assert of_agent.mean + of_agent.error < everything.mean - everything.error
    assert of_agent.ties == 0.0
    assert {QUERYS, AGENTS, ()} < set(SHARED.values())
