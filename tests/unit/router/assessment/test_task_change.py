"""Conversations as people have them, and what their next turn is to the task."""

import pytest

from kernel.activation import Route
from services.router.core.task_change import TurnKind, decision_holds, turn_kind

VENUS = (["How hot is it on the surface of Venus, in Fahrenheit?"], ["About 867 °F on average."])
FRANCE = (["What is the capital of France?"], ["The capital of France is Paris."])
MERGE = (
    ["Write a Python function that merges two sorted lists."],
    ["def merge(a, b):\n    return sorted(a + b)\n\nIt concatenates both lists and sorts the result."],
)
PRIMES = (["Is 91 a prime number?"], ["No, 91 is 7 times 13."])
MORTGAGE = (
    ["Should I pay off my mortgage early or invest the money in an index fund?"],
    ["It depends on the interest rate of the mortgage, your taxes and how long you invest."],
)
LEASE = (
    ["My landlord wants to end my lease two months early. What are my rights?", "It is in Ohio, by the way, a flat."],
    ["That depends on the state.", "In Ohio a fixed-term lease binds both sides."],
)


@pytest.mark.parametrize(
    ("task", "last"),
    [
        (VENUS, "and in Celsius?"),
        (VENUS, "And in Kelvin"),
        (VENUS, "What about Mercury?"),
        (VENUS, "Thanks! And in Celsius?"),
        (FRANCE, "why?"),
        (FRANCE, "What is its population?"),
        (FRANCE, "and of Germany?"),
        (FRANCE, "Why Paris?"),
        (FRANCE, "How about the capital of Spain?"),
        (MERGE, "Can you rename it to merge_sorted?"),
        (MERGE, "add a docstring to that"),
        (MERGE, "Please explain it step by step."),
        (MERGE, "Is the Python function stable on sorted lists?"),
        (MORTGAGE, "go on"),
        (MORTGAGE, "Explain that more simply, please"),
        (MORTGAGE, "shorter please"),
        (MORTGAGE, "What do you mean by that?"),
        (MORTGAGE, "And if the interest rate is 7%?"),
        (LEASE, "Can he do that?"),
        (LEASE, "What if he does that anyway?"),
    ],
)
def test_a_turn_that_leans_on_the_task_follows_it_up(task: tuple[list[str], list[str]], last: str) -> None:
    assert turn_kind(last, *task) is TurnKind.FOLLOW_UP


@pytest.mark.parametrize(
    ("task", "last"),
    [
        (VENUS, "Why is the sky blue?"),
        (VENUS, "Who wrote Hamlet?"),
        (VENUS, "And who wrote Hamlet?"),
        (VENUS, "So what is gravity?"),
        (VENUS, "What about the Riemann hypothesis?"),
        (VENUS, "How about a poem on autumn leaves?"),
        (FRANCE, "And what is the meaning of life?"),
        (FRANCE, "Is it true that Napoleon was short?"),
        (FRANCE, "What is it called when a star explodes?"),
        (FRANCE, "A different question, is that ok?"),
        (FRANCE, "By the way, and in Celsius?"),
        (FRANCE, "Forget that. Write it as a poem."),
        (FRANCE, "What is the capital gains tax in France for a company with foreign owners?"),
        (PRIMES, "Is 97 a prime number?"),
        (PRIMES, "And 173 * 849?"),
        (PRIMES, "What is a right triangle?"),
        (MERGE, "Write a Python function that finds the longest palindrome."),
        (MERGE, "Solve the travelling salesman problem"),
        (MERGE, "What is wrong with my car's engine?"),
        (MERGE, "Now make it thread-safe, lock-free and distributed."),
        (MERGE, "now fix this: def g(x): return g(x - 1)"),
        (MERGE, 'Translate "it rains"'),
        (MORTGAGE, "hello"),
        (MORTGAGE, "How are you?"),
        (MORTGAGE, "Thanks. Now explain how vaccines train an immune system."),
        (MORTGAGE, "And if I have two children, a student loan at 6%, a pension in another country and plan to move?"),
        (LEASE, "My sister was in a car accident yesterday and the other driver has no insurance. What should she do?"),
        (VENUS, "und in Celsius?"),
        (VENUS, "那么摄氏度呢?"),
        (VENUS, ""),
        (VENUS, "???"),
        (VENUS, "[image_url]"),
    ],
)
def test_a_turn_that_could_stand_alone_is_a_new_task(task: tuple[list[str], list[str]], last: str) -> None:
    assert turn_kind(last, *task) is TurnKind.NEW


@pytest.mark.parametrize(
    "last",
    ["thanks", "Thank you very much!", "ok, got it", "Great, that helps.", "Perfect!", "I see. Thanks a lot", "bye"],
)
def test_thanks_are_no_question(last: str) -> None:
    assert turn_kind(last, *FRANCE) is TurnKind.THANKS


@pytest.mark.parametrize(
    "last",
    [
        "Are you sure?",
        "That's wrong.",
        "No, it is 89.",
        "really?",
        "I think that is not correct",
        "Check it again, please",
    ],
)
def test_a_turn_that_disputes_the_answer_is_a_doubt(last: str) -> None:
    assert turn_kind(last, *PRIMES) is TurnKind.DOUBT


@pytest.mark.parametrize("last", ["now make it handle empty lists and add a docstring", "Use a heap queue instead"])
def test_an_edit_that_brings_more_than_a_word_is_a_demand(last: str) -> None:
    assert turn_kind(last, *MERGE) is TurnKind.DEMAND


@pytest.mark.parametrize("last", ["Prove it.", "Can you verify that?", "Now derive it", "analyse its complexity"])
def test_a_follow_up_that_asks_for_rigour_is_a_demand(last: str) -> None:
    assert turn_kind(last, *MERGE) is TurnKind.DEMAND


@pytest.mark.parametrize(
    ("task", "last"),
    [
        (PRIMES, "Prove that there are infinitely many primes."),
        (PRIMES, "So what is its largest prime factor, exactly?"),
        (FRANCE, "Compare it to Germany"),
        (MERGE, "Can you prove its complexity is optimal?"),
        (MERGE, "That is not right, check it."),
    ],
)
def test_a_harder_turn_on_the_same_task_is_assessed_again_after_system_one(
    task: tuple[list[str], list[str]], last: str
) -> None:
    assert not decision_holds(turn_kind(last, *task), Route.SYSTEM_ONE)


@pytest.mark.parametrize(
    ("turn", "one", "two"),
    [
        (TurnKind.FOLLOW_UP, True, True),
        (TurnKind.THANKS, True, False),
        (TurnKind.DOUBT, False, True),
        (TurnKind.DEMAND, False, True),
        (TurnKind.NEW, False, False),
    ],
)
def test_what_is_doubted_or_hard_is_not_left_to_system_one_unseen(turn: TurnKind, one: bool, two: bool) -> None:
    assert (decision_holds(turn, Route.SYSTEM_ONE), decision_holds(turn, Route.SYSTEM_TWO)) == (one, two)
