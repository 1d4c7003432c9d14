"""The arms of an exam, and what it will take, against numbers computed by hand."""

import pytest

from cli.exam.arms import ArmKind, ExamArm, Offered, resolved
from cli.exam.estimate import NO_RUN, MeanRun, estimated, total
from cli.exam.requests import AskLimits, ExamQuestion, prompt_text, questions, request_of
from cli.terminal.exits import UnusableInput
from evals.items import Item
from kernel.answers import AnswerType
from kernel.prices import Price

SUITE = Offered(
    prices={"small": Price(prompt=1.0, completion=2.0), "large": None},
    strategies=["system1", "vote"],
    agents={"ada": "small", "bob": "other"},
    dimensions=frozenset({"math_computation"}),
)
ITEMS = [
    Item(
        id=f"t-{number}",
        dataset="t",
        question="What is 1 + 1?",
        answer="2",
        answer_type=AnswerType.NUMBER,
        dimension=kind,
    )
    for number, kind in enumerate(["math_computation", "math_computation", "riddles"])
]


def asked(*arms: str) -> list[ExamQuestion]:
    return list(questions("journal", resolved(arms, SUITE), ITEMS))


def test_groups_and_single_arms_are_named_once() -> None:
    found = resolved(["models", "model:small", "agents", "strategies", "strategy:auto"], SUITE)

    assert [arm.label for arm in found] == [
        *("model:small", "model:large", "agent:ada", "agent:bob"),
        *("strategy:system1", "strategy:vote", "strategy:auto"),
    ]
    assert [arm.model for arm in found] == ["small", "large", "", "", "metacog-system1", "metacog-vote", "metacog"]


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ([], "--arms names no arm"),
        (["everybody"], "--arms everybody: it must be models, agents, strategies, or one of them such as model:NAME"),
        (["model:huge"], "--arms model:huge: there is no such model; there are small, large"),
        (["agent:eve"], "there is no such agent; there are ada, bob"),
        (["strategy:debate"], "there is no such strategy; there are system1, vote, auto"),
    ],
)
def test_an_arm_that_does_not_exist_is_an_error_with_those_that_do(wanted: list[str], complaint: str) -> None:
    with pytest.raises(UnusableInput) as raised:
        resolved(wanted, SUITE)

    assert complaint in raised.value.message


def test_a_group_without_members_is_an_error() -> None:
    with pytest.raises(UnusableInput, match="--arms agents: the suite has none"):
        resolved(["agents"], Offered(prices={}, strategies=[], agents={}))


def test_one_call_for_each_question_costs_at_most_the_tokens_that_it_may_generate() -> None:
    own = asked("model:small")
    read = round(sum(len(prompt_text(question)) for question in own) / 4)

    [row] = estimated(own, SUITE, 100, {})

    assert (row.arm, row.questions, row.calls, row.prompt_tokens, row.completion_tokens) == (
        "model:small",
        3,
        3,
        read,
        300,
    )
    # the tokens that are read at 1 per million, 300 that are generated at 2
    assert row.cost == pytest.approx(read * 1e-6 + 300 * 2e-6)
    assert row.basis == "at most"


def test_a_price_that_is_not_known_is_unknown_and_not_zero() -> None:
    rows = estimated(asked("model:small", "model:large", "agent:bob"), SUITE, 100, {})
    whole = total(rows)

    assert [row.cost is None for row in rows] == [False, True, True]
    assert (whole.cost, list(whole.unpriced), list(whole.unknown)) == (rows[0].cost, ["model:large", "agent:bob"], [])
    assert total(rows[1:]).cost is None


def test_an_agent_costs_what_its_model_costs_and_a_task_of_an_unknown_kind_one_more_call() -> None:
    [row] = estimated(asked("agent:ada"), SUITE, 100, {})

    # an answer and at most two ratings of each task; one of the tasks is classified
    assert (row.questions, row.calls, row.completion_tokens) == (3, 10, 3 * 100 + 6 * 48)
    assert row.cost is not None


def test_without_a_limit_the_generated_tokens_are_unknown() -> None:
    [row] = estimated(asked("model:small"), SUITE, 0, {})

    assert (row.calls, row.completion_tokens, row.cost) == (3, None, None)
    assert list(total([row]).unknown) == ["model:small"]


def test_a_strategy_takes_what_its_recorded_runs_took_on_average() -> None:
    mean = MeanRun(runs=50, generations=2.5, prompt_tokens=400.0, completion_tokens=120.0, cost=0.002)

    [row] = estimated(asked("strategy:vote"), SUITE, 100, {"vote": mean})

    assert (row.calls, row.prompt_tokens, row.completion_tokens) == (7.5, 1200, 360)
    assert row.cost == pytest.approx(0.006)
    assert row.basis == "mean of 50 recorded runs"


def test_a_strategy_without_a_recorded_run_is_unknown() -> None:
    rows = estimated(asked("model:small", "strategy:vote"), SUITE, 100, {})

    assert (rows[1].calls, rows[1].cost, rows[1].basis) == (None, None, NO_RUN)
    assert (total(rows).calls, list(total(rows).unknown)) == (3, ["strategy:vote"])


def test_every_question_has_one_name_for_its_request_and_its_label() -> None:
    own = asked("model:small", "agent:ada")
    bodies = [dict(request_of(question, AskLimits(max_tokens=9, timeout_ms=5, seed=1)).body) for question in own]

    assert len({question.token for question in own}) == 6
    assert bodies[0]["metacog"]["request_id"] == own[0].token
    assert bodies[1]["request_id"] == own[1].token
    assert {question.token for question in own}.isdisjoint(
        question.token for question in questions("another journal", resolved(["model:small"], SUITE), ITEMS)
    )


def test_an_agent_is_asked_alone_and_rates_itself_in_the_dimension_of_the_task() -> None:
    limits = AskLimits(max_tokens=9, timeout_ms=5, seed=1, dimensions=SUITE.dimensions)
    known, _, riddle = (dict(request_of(question, limits).body) for question in asked("agent:ada"))

    assert (known["agents"], known["first_agent"], "ablations" in known) == (["ada"], "ada", False)
    assert (known["dimensions"], "dimensions" in riddle) == (["math_computation"], False)
    assert (known["answer_max_tokens"], known["envelope"]) == (9, {"timeout_ms": 5})


def test_an_arm_that_votes_is_asked_for_all_its_votes_where_the_exam_says_so() -> None:
    limits = AskLimits(max_tokens=9, timeout_ms=5, seed=1, all_votes=True)
    vote, one = (asked(arm)[0] for arm in ("strategy:vote", "model:small"))

    assert dict(request_of(vote, limits).body)["metacog"]["vote"] == {"ask_all": True}
    assert "vote" not in dict(request_of(one, limits).body)["metacog"]


def test_an_arm_has_a_label() -> None:
    assert ExamArm(kind=ArmKind.MODEL, name="org/model:7b").label == "model:org/model:7b"
