"""Records under a name are of one question: what was recorded is gone on with for that question alone."""

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from evals.errors import RecordsUnusable
from evals.harness.arms import Plan
from evals.harness.commands import OUTCOMES
from evals.harness.item_records import content_digest, introduction, require_same_items
from evals.harness.session import RECORDS, Session, record
from evals.outcomes.items import Outcomes, read_outcomes
from evals.records import Record, read_records
from evals.router_client import RouterClient
from evals.routing.requests import Plan as RoutingPlan
from evals.routing.session import Source
from evals.routing.session import record as record_routing
from evals.strategies import named, route_by
from evals.suite import SuiteClient
from tests.support.evaluation_records import Router, an_item
from tests.support.evaluation_replies import RIGHT, ScriptedSuite, chat, decision, spent

ITEM = an_item(1)
PROGRAM = replace(ITEM, tests="assert add(1, 1) == 2", entry_point="add")
OTHERS = {
    "question": replace(ITEM, question="What is 1 + 2?"),
    "answer": replace(ITEM, answer="3"),
    "context": replace(ITEM, context="One and one are three."),
    "choices": replace(ITEM, choices=("2", "3")),
    "aliases": replace(ITEM, aliases=("two",)),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_question_or_answer_under_a_recorded_name_is_rejected(other: object) -> None:
    with pytest.raises(RecordsUnusable, match="another right answer, as sums-1; take another --out"):
        require_same_items([other], [introduction(ITEM, "")])  # type: ignore[list-item]


def test_other_tests_of_a_program_are_another_item() -> None:
    assert content_digest(replace(PROGRAM, tests="assert True")) != content_digest(PROGRAM)
    assert content_digest(replace(PROGRAM, entry_point="sum")) != content_digest(PROGRAM)


def test_the_same_items_and_new_ones_are_resumed() -> None:
    require_same_items([ITEM, an_item(2)], [introduction(ITEM, "")])


def without_digest(made: Record) -> Record:
    return {name: report for name, report in made.items() if name != "digest"}


def test_items_that_were_recorded_before_digests_came_are_known_by_their_answers() -> None:
    older = [without_digest(introduction(ITEM, ""))]

    require_same_items([ITEM], older)
    with pytest.raises(RecordsUnusable, match="sums-1"):
        require_same_items([OTHERS["answer"]], older)


def outcomes_in(file: Path, **more: object) -> Outcomes:
    row = {"id": "r-1", "question": "Which?", "choices": ["x", "y"], "strong_correct": True, "weak_correct": False}
    file.write_text(json.dumps({**row, "weak_model": "small", "strong_model": "large", **more}) + "\n")
    return read_outcomes([file], 1)


@pytest.mark.parametrize(
    "other",
    [{"weak_model": "tiny"}, {"strong_model": "huge"}, {"weak_correct": True}, {"strong_correct": False}],
    ids=lambda other: next(iter(other)),
)
def test_other_outcomes_of_a_recorded_question_are_rejected(tmp_path: Path, other: dict[str, object]) -> None:
    before, now = outcomes_in(tmp_path / "a.jsonl"), outcomes_in(tmp_path / "b.jsonl", **other)
    records = [before.introduce(before.items[0], "Which?")]

    require_same_items(before.items, records, before.introduce)
    with pytest.raises(RecordsUnusable, match="another outcome of two models, as r-1; take another --out"):
        require_same_items(now.items, records, now.introduce)


async def test_a_run_on_outcomes_does_not_mix_two_pairs_of_models(tmp_path: Path) -> None:
    report = {"config_version": "paper", "activation": {"value": 0.6, "threshold": 0.45, "weights": {}}}
    answer = {"run": {"model": "scripted", "usage": spent()}}
    suite = ScriptedSuite({"/v1/route": {**decision(0.6), **report}, "/v1/answers": answer})

    async def scored(outcomes: Outcomes) -> None:
        session = Session(
            command=OUTCOMES, typed="x", folder=tmp_path / "out", asks_router=True, introduce=outcomes.introduce
        )
        plan = Plan(items=outcomes.items, arms=[route_by("hybrid")])
        await record(session, plan, cast(SuiteClient, suite), lambda: None)

    await scored(outcomes_in(tmp_path / "a.jsonl"))
    before = (tmp_path / "out" / RECORDS).read_bytes()

    with pytest.raises(RecordsUnusable, match="r-1"):
        await scored(outcomes_in(tmp_path / "a.jsonl", strong_model="huge"))

    assert (tmp_path / "out" / RECORDS).read_bytes() == before


async def test_a_run_does_not_mix_two_questions_of_one_name(tmp_path: Path) -> None:
    suite, session = (
        ScriptedSuite({"/v1/chat/completions": chat(RIGHT)}),
        Session(command="compare", typed="x", folder=tmp_path),
    )
    plan = Plan(items=[ITEM], arms=[named("system1")])
    await record(session, plan, cast(SuiteClient, suite), lambda: None)
    before = (tmp_path / RECORDS).read_bytes()

    with pytest.raises(RecordsUnusable, match="sums-1"):
        await record(session, replace(plan, items=[OTHERS["answer"]]), cast(SuiteClient, suite), lambda: None)

    assert (tmp_path / RECORDS).read_bytes() == before
    assert len(suite.asked) == 1


async def test_the_routers_own_evaluation_does_not_mix_them_either(tmp_path: Path) -> None:
    router, about = Router(), Source(folder="questions", sets=("sums",), items=1)
    plan = RoutingPlan(items=[ITEM], assessors=("probe",))
    await record_routing(plan, about, cast(RouterClient, router), tmp_path, lambda: None)
    recorded = read_records(tmp_path / RECORDS)

    with pytest.raises(RecordsUnusable, match="sums-1"):
        await record_routing(
            replace(plan, items=[OTHERS["question"]]), about, cast(RouterClient, router), tmp_path, lambda: None
        )

    assert read_records(tmp_path / RECORDS) == recorded
