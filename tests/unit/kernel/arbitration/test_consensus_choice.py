"""Which answer is given (papers.md 2.1)."""

from hypothesis import given
from hypothesis import strategies as st

from kernel.arbitration.consensus import consensus_choice, ranked_answers
from kernel.arbitration.modes import AnswerSource

COUNTS = st.dictionaries(st.sampled_from(["10", "12", "13", "14"]), st.integers(1, 50))


def test_the_most_frequent_arbitration_answer_wins_whatever_the_solvers_answer() -> None:
    choice = consensus_choice({"12": 9, "13": 1}, {"13": 26, "12": 24})

    assert choice is not None
    assert (choice.answer, choice.source, choice.confidence, choice.tied) == ("13", AnswerSource.ARBITER, 26 / 50, ())


def test_a_tie_goes_to_the_answer_with_more_solver_samples() -> None:
    choice = consensus_choice({"12": 4, "13": 6}, {"12": 25, "13": 25})

    assert choice is not None
    assert (choice.answer, choice.tied, choice.confidence) == ("13", ("13", "12"), 0.5)


def test_a_tie_among_solvers_too_goes_to_the_first_in_canonical_order() -> None:
    choice = consensus_choice({"12": 5, "13": 5}, {"13": 25, "12": 25, "14": 3})

    assert choice is not None
    assert (choice.answer, choice.tied) == ("12", ("12", "13"))


def test_without_a_valid_arbitration_sample_the_solvers_vote_decides() -> None:
    choice = consensus_choice({"12": 6, "13": 4}, {})

    assert choice is not None
    assert (choice.answer, choice.source, choice.confidence) == ("12", AnswerSource.SOLVER_FALLBACK, 0.6)


def test_without_any_valid_sample_there_is_no_answer() -> None:
    assert consensus_choice({}, {}) is None


@given(COUNTS, COUNTS)
def test_the_answer_depends_on_no_order(solver: dict[str, int], arbiter: dict[str, int]) -> None:
    backwards = dict(reversed(arbiter.items()))

    assert ranked_answers(arbiter, solver) == ranked_answers(backwards, dict(reversed(solver.items())))


@given(COUNTS, COUNTS)
def test_no_answer_is_ahead_of_the_chosen_one(solver: dict[str, int], arbiter: dict[str, int]) -> None:
    choice = consensus_choice(solver, arbiter)

    counts = arbiter or solver
    assert (choice is None) == (not counts)
    if choice is not None:
        assert counts[choice.answer] == max(counts.values())
        assert choice.confidence == counts[choice.answer] / sum(counts.values())
