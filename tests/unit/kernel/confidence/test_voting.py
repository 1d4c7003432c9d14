from hypothesis import given
from hypothesis import strategies as st

from kernel.answers import AnswerType
from kernel.confidence.voting import Ballot, answer_in, count_votes


def ballot(agent: str, answer: str | None, weight: float) -> Ballot:
    return Ballot(agent=agent, answer=answer, weight=weight)


def test_the_answer_with_most_weight_wins_whatever_its_spelling() -> None:
    votes = [ballot("a", "1,000", 0.4), ballot("b", "7", 0.5), ballot("c", "1000.0", 0.2)]

    result = count_votes(votes, AnswerType.NUMBER)

    assert (result.answer, result.winners) == ("1000", frozenset({"a", "c"}))
    assert result.weights == {"1000": 0.6, "7": 0.5}
    assert result.share == round(0.6 / 1.1, 9)


def test_votes_without_a_valid_answer_weigh_nothing() -> None:
    result = count_votes([ballot("a", None, 0.9), ballot("b", "many", 0.9), ballot("c", "3", 0.1)], AnswerType.NUMBER)

    assert (result.answer, result.share, result.answers) == ("3", 1.0, {"c": "3"})


def test_a_tie_goes_to_more_agents_then_to_canonical_order() -> None:
    more = count_votes([ballot("a", "9", 0.4), ballot("b", "2", 0.2), ballot("c", "2", 0.2)], AnswerType.NUMBER)
    order = count_votes([ballot("a", "b", 0.4), ballot("b", "a", 0.4)], AnswerType.CHOICE)

    assert (more.answer, order.answer) == ("2", "A")


def test_votes_that_weigh_nothing_are_counted_by_heads() -> None:
    result = count_votes([ballot("a", "1", 0.0), ballot("b", "2", 0.0), ballot("c", "2", 0.0)], AnswerType.NUMBER)

    assert (result.answer, result.weights) == ("2", {"2": 2.0, "1": 1.0})


def test_without_answers_there_is_no_winner() -> None:
    result = count_votes([ballot("a", None, 0.9)], AnswerType.NUMBER)

    assert (result.answer, result.share, result.winners) == (None, None, frozenset())


def test_a_free_text_is_its_own_answer_unless_it_names_one() -> None:
    assert answer_in(" It depends. ", AnswerType.TEXT) == "It depends"
    long = "That depends on the weather, on the wind, and on how many of you there will be."
    assert answer_in(f" {long} ", AnswerType.TEXT) == long
    assert answer_in("Long story.\nFinal Answer: Paris", AnswerType.TEXT) == "Paris"
    assert answer_in("It depends.", AnswerType.NUMBER) is None


@given(st.lists(st.tuples(st.sampled_from("123"), st.integers(0, 8)), min_size=1, max_size=8))
def test_the_order_of_votes_does_not_matter(votes: list[tuple[str, int]]) -> None:
    ballots = [ballot(str(place), answer, weight / 8) for place, (answer, weight) in enumerate(votes)]

    assert count_votes(ballots, AnswerType.NUMBER).answer == count_votes(ballots[::-1], AnswerType.NUMBER).answer
