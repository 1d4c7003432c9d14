"""What `metacog calibrate` reads off runs with votes, and what it makes of it."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from metacog.arbiter.v1.vote_pb2 import VoteCast
from metacog.router.v1.router_pb2 import Run as ContractRun

from chassis.errors import ConfigurationInvalid
from chassis.serving.wire import from_rest
from cli.calibration.cascade_rule import chosen_cascade, document, policy_file, report
from cli.calibration.recorded_cascades import (
    CascadeSample,
    policy_source,
    questions_of_runs,
    read_questions,
    source_name,
)
from cli.calibration.too_few import TooFewLabels
from kernel.votes.cascade_choice import CascadeChoice, CascadeLimit, RecordedAnswer
from tests.support.hostile.expressions import hostile

Run = dict[str, Any]


def run(
    strategy: str,
    digest: str = "q",
    *,
    score: float | None = 1.0,
    model: str = "",
    answer: str = "",
    cost: float | None = None,
    **more: Any,  # noqa: ANN401 - of any type
) -> Run:
    """A run as the router's API lists it."""
    feedback = [] if score is None else [{"score": score, "teaches": True}]
    usage = {"stages": {}} if cost is None else {"stages": {}, "cost": cost}
    return {
        "run_id": f"run {digest}",
        "messages_digest": digest,
        "messages": [{"role": "user", "content": "What is 2 + 2?"}],
        "strategy": strategy,
        "outcome": "ANSWERED",
        "model": model,
        "answer": answer,
        "usage": usage,
        "feedback": feedback,
        "deliberation": None,
        **more,
    }


def vote_run(given: dict[str, str | None], *, digest: str = "q", score: float | None = 1.0, **more: Any) -> Run:  # noqa: ANN401
    """A run with votes of these models; their answers are canonical already."""
    answers = list(given.values())
    valid = sorted(dict.fromkeys(one for one in answers if one is not None), key=lambda one: -answers.count(one))
    account = {
        "answer_type": "NUMBER",
        "votes": [
            {"index": at, "agent": "", "model": name, "source_model": name, "mode": "REASONED"}
            for at, name in enumerate(given)
        ],
        "groups": [{"answer": one, "votes": [at for at, own in enumerate(answers) if own == one]} for one in valid],
    }
    return run("vote", digest, score=score, deliberation=account, **more)


def read(*runs: Run) -> CascadeSample:
    return questions_of_runs(from_rest(one, ContractRun) for one in runs)


def known(sample: CascadeSample) -> dict[str, bool | None]:
    [question] = sample.questions
    return {name: one.is_right for name, one in question.items()}


def test_where_the_answer_is_right_all_other_votes_are_wrong() -> None:
    assert known(read(vote_run({"a": "4", "b": "5", "c": "4", "d": None}))) == {
        "a": True,
        "b": False,
        "c": True,
        "d": False,
    }


def test_a_model_has_its_name_in_the_catalogue_whatever_its_server_calls_it() -> None:
    exam = [
        run("system1", model="gpt-4o-2024-08-06", catalogue_name="gpt-4o", answer="4"),
        run("system1", model="qwen2.5", catalogue_name="small", answer="5", score=0.0),
    ]
    voted = vote_run({"small": "5", "qwen2.5": "5"}, digest="q", score=0.0)
    voted["deliberation"]["votes"][1] |= {"source_model": "", "mode": "DRAFT"}

    assert known(read(*exam, voted)) == {"gpt-4o": True, "small": False}


def test_where_the_answer_is_wrong_only_its_own_votes_are_known() -> None:
    found = read(vote_run({"a": "4", "b": "5", "c": "4", "d": None}, score=0.0))

    assert known(found) == {"a": False, "b": None, "c": False, "d": False}


def test_the_answer_of_a_stronger_model_has_the_label_and_says_which_votes_are_right() -> None:
    escalated = vote_run(
        {"a": "4", "b": "5"},
        answer="It is so.\nFinal Answer: 5",
        escalation={"model": "strong", "reason": "UNDECIDED", "answered": True, "error": ""},
    )
    escalated["usage"]["stages"] = {"escalation": {"cost": 0.02}}

    sample = read(escalated)

    assert known(sample) == {"a": False, "b": True, "strong": True}
    assert sample.costs == {"strong": 0.02, "a": None, "b": None}


def test_a_stronger_model_that_was_not_asked_has_no_answer() -> None:
    decided = vote_run({"a": "4", "b": "4"}, escalation={"model": "strong", "reason": None, "answered": False})

    assert known(read(decided)) == {"a": True, "b": True}


def test_runs_of_one_question_belong_together_whoever_answered() -> None:
    sample = read(
        vote_run({"a": "4", "b": "5"}),
        run("system1", model="c", answer="Final Answer: 4.0", cost=0.01),
        run("system1", model="strong", answer="Final Answer: 7", score=0.0, cost=0.5),
    )

    [question] = sample.questions
    assert known(sample) == {"a": True, "b": False, "c": True, "strong": False}
    assert question["a"].key == question["c"].key != question["b"].key
    assert sample.costs == {"c": 0.01, "strong": 0.5, "a": None, "b": None}


def test_an_answer_without_a_cost_of_its_own_has_the_mean_of_its_source() -> None:
    runs = [
        *(run("system1", str(at), model="a", answer="4", cost=cost) for at, cost in enumerate((1.0, 3.0, None))),
        *(run("system1", str(at), model="b", answer="4") for at in range(3)),
    ]

    assert [question["a"].cost for question in read(*runs).questions] == [1.0, 3.0, 2.0]
    assert {question["b"].cost for question in read(*runs).questions} == {None}


def test_what_cannot_be_used_is_counted_by_its_reason() -> None:
    sample = read(
        run("system1", model="a", answer="4"),
        run("dialectic", "1"),
        run("vote", "2"),
        vote_run({"a": "4", "b": "4"}, digest="3", score=None),
        {**vote_run({"a": None, "b": None}, digest="4"), "outcome": "ABSTAINED"},
    )

    assert sample.questions == []
    assert sample.left_out == {
        "another strategy": 1,
        "no answer": 1,
        "no label that teaches": 1,
        "no votes": 1,
        "questions that one source alone answered": 1,
    }


def test_without_stored_contents_the_groups_say_which_votes_are_equal() -> None:
    bare = vote_run({"a": "4", "b": "5", "c": "4"})
    bare["messages"] = []
    for group in bare["deliberation"]["groups"]:
        group["answer"] = ""

    assert known(read(bare)) == {"a": True, "b": False, "c": True}


@pytest.mark.parametrize(
    ("agent", "named", "mode", "written"),
    [
        ("", "", "DRAFT", "default"),
        ("", "", "REASONED", {"model": "default", "mode": "REASONED"}),
        ("", "small", "REASONED", "small"),
        ("", "small", "PROGRAM", {"model": "small", "mode": "PROGRAM"}),
        ("ada", "", "REASONED", {"agent": "ada"}),
    ],
)
def test_a_source_is_written_as_the_policy_table_names_it(agent: str, named: str, mode: str, written: object) -> None:
    vote = {"agent": agent, "source_model": named, "model": named or "default", "mode": mode}

    assert policy_source(source_name(from_rest(vote, VoteCast))) == written


def complete(count: int = 200) -> CascadeSample:
    """Of five questions a, b and c agree and are right on four; on the fifth they divide, and strong is right."""
    questions = []
    for at in range(count):
        keys = ("wyz" if at % 5 == 0 else "xxx") + "x"
        questions.append(
            {
                name: RecordedAnswer(key=key, is_right=key == "x", cost=20.0 if name == "strong" else 1.0)
                for name, key in zip(("a", "b", "c", "strong"), keys, strict=True)
            }
        )
    return CascadeSample(questions=questions, costs={"a": 1.0, "b": 1.0, "c": 1.0, "strong": 20.0}, left_out={"x": 1})


def chosen(
    sample: CascadeSample, *, strong: str = "", sources: tuple[str, ...] = (), cost: float | None = 10.0
) -> CascadeChoice:
    rng = np.random.default_rng(0)
    return chosen_cascade(sample, strong=strong, sources=sources, limit=CascadeLimit(cost=cost), rng=rng)


def test_the_chosen_rule_is_a_row_of_the_policy_table() -> None:
    sample = complete()
    choice = chosen(sample)

    [row] = yaml.safe_load(policy_file(choice, sample))["rows"]
    assert row == {
        "name": "small-first",
        "always": True,
        "strategy": "cascade",
        "sources": ["a", "b"],
        "agree": 2,
        "most": 2,
        "escalate": "strong",
    }
    text = report(choice, sample)
    assert "labelled questions: 200; left out: x: 1" in text
    assert "share right 1.000 [1.000, 1.000], escalated 0.200 [" in text
    assert "mean cost 6.000 [" in text
    assert "over as many questions escalated at random: +0.160 [" in text
    assert text.endswith("rule: 2 of a, b must agree, else strong answers")
    assert document(choice, sample)["row"]["escalate"] == "strong"


def test_one_model_alone_is_a_row_of_system_one() -> None:
    sample = complete()
    choice = chosen(sample, cost=1.0)

    [row] = yaml.safe_load(policy_file(choice, sample))["rows"]
    assert row == {"name": "small-first", "always": True, "strategy": "system1", "model": "a"}
    assert report(choice, sample).endswith("rule: a alone")


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (0, "there is no labelled question that several sources answered; have every model answer the same"),
        (99, "99 labelled questions are too few to choose a rule; at least 100 are needed, of which 20 escalated"),
    ],
)
def test_too_few_labels_are_an_error_that_names_how_many_are_needed(count: int, message: str) -> None:
    with pytest.raises(TooFewLabels, match=message):
        chosen(complete(count))


def test_labels_of_votes_that_stopped_do_not_say_what_another_rule_gives() -> None:
    """Where two agree, the third and the strong model were not asked: only the rule that made the records is known."""
    runs = [
        vote_run({"a": "4", "b": "4"}, digest=str(at))
        if at % 4
        else vote_run(
            {"a": "4", "b": "5", "c": "6"},
            digest=str(at),
            answer="Final Answer: 7",
            escalation={"model": "strong", "answered": True},
        )
        for at in range(120)
    ]

    sample = read(*runs)
    choice = chosen_cascade(
        sample, strong="strong", sources=(), limit=CascadeLimit(share=0.25), rng=np.random.default_rng(0)
    )

    assert (choice.rule.sources, choice.rule.agree, choice.rule.escalate) == (("a", "b"), 2, "strong")
    assert choice.undetermined > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"strong": "huge"}, "the records have no answer of huge; there are a, b, c, strong"),
        ({"sources": ("a", "small")}, "the records have no answer of small"),
        ({"cost": 0.5}, "no rule can be chosen from 200 labelled questions: the cheapest rule costs 1 in the mean"),
    ],
)
def test_what_cannot_be_chosen_is_named(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=message):
        chosen(complete(), **words)


def test_cheap_answers_that_cost_as_much_as_the_strong_one_are_not_compared_with_escalation() -> None:
    """Two answers of 10 cost as much as one of 20: no rule that asks two and escalates can pay."""
    sample = complete()
    dear = CascadeSample(questions=sample.questions, costs={**dict.fromkeys("abc", 10.0), "strong": 20.0}, left_out={})

    assert chosen(sample, cost=None).compared > chosen(dear, strong="strong", cost=None).compared
    assert chosen(dear, strong="strong", cost=None).rule.escalate == ""


def test_of_sources_that_cost_the_same_the_more_often_right_one_is_asked_first() -> None:
    questions = [
        {name: RecordedAnswer(key="x" if right else name, is_right=right, cost=1.0) for name, right in given.items()}
        for at in range(100)
        for given in [{"a": at % 2 == 0, "b": True, "strong": True}]
    ]
    sample = CascadeSample(questions=questions, costs={"a": 1.0, "b": 1.0, "strong": 1.0}, left_out={})

    assert chosen(sample, strong="strong").rule.sources == ("b",)


def test_without_costs_the_strong_model_must_be_named() -> None:
    sample = complete()
    free = CascadeSample(questions=sample.questions, costs=dict.fromkeys(sample.costs), left_out={})

    with pytest.raises(ConfigurationInvalid, match="name it with --escalate"):
        chosen(free)
    assert chosen(free, strong="strong").rule.escalate == "strong"


def test_a_question_whose_expressions_take_too_long_to_compare_is_left_out_and_counted(tmp_path: Path) -> None:
    given, right = hostile("x")
    written = {f"model {number}": {"answer": one} for number, one in enumerate([given, *right])}
    file, began = tmp_path / "answers.jsonl", time.monotonic()
    file.write_text(json.dumps({"answers": written, "answer_type": "TEXT"}))

    sample = read_questions(file)

    assert sample.questions == []
    assert sample.left_out == {"questions whose expressions take too long to compare": 1}
    assert time.monotonic() - began < 60  # 5,050 comparisons of half a second each
