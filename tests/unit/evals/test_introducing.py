"""Records under a name are of one question: what was recorded is gone on with for that question alone."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from evals.errors import RecordsUnusable
from evals.harness.arms import Plan
from evals.harness.introducing import content_digest, introduction, same_items
from evals.harness.session import RECORDS, Session, record
from evals.records import Record, read_records
from evals.router_client import RouterClient
from evals.routing.asking import Plan as RoutingPlan
from evals.routing.running import Source
from evals.routing.running import record as record_routing
from evals.strategies import named
from evals.suite import Faces
from tests.support.evaluating import RIGHT, ScriptedSuite, chat
from tests.support.evaluation import Router, an_item

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
def test_another_question_or_answer_under_a_recorded_name_is_refused(other: object) -> None:
    with pytest.raises(RecordsUnusable, match="another right answer, as sums-1; take another --out"):
        same_items([other], [introduction(ITEM, "")])  # type: ignore[list-item]


def test_other_tests_of_a_program_are_another_item() -> None:
    assert content_digest(replace(PROGRAM, tests="assert True")) != content_digest(PROGRAM)
    assert content_digest(replace(PROGRAM, entry_point="sum")) != content_digest(PROGRAM)


def test_the_same_items_and_new_ones_are_gone_on_with() -> None:
    same_items([ITEM, an_item(2)], [introduction(ITEM, "")])


def without_digest(made: Record) -> Record:
    return {name: told for name, told in made.items() if name != "digest"}


def test_items_that_were_recorded_before_digests_came_are_known_by_their_answers() -> None:
    older = [without_digest(introduction(ITEM, ""))]

    same_items([ITEM], older)
    with pytest.raises(RecordsUnusable, match="sums-1"):
        same_items([OTHERS["answer"]], older)


async def test_a_run_does_not_mix_two_questions_of_one_name(tmp_path: Path) -> None:
    suite, session = (
        ScriptedSuite({"/v1/chat/completions": chat(RIGHT)}),
        Session(command="compare", typed="x", folder=tmp_path),
    )
    plan = Plan(items=[ITEM], arms=[named("system1")])
    await record(session, plan, cast(Faces, suite), lambda: None)
    before = (tmp_path / RECORDS).read_bytes()

    with pytest.raises(RecordsUnusable, match="sums-1"):
        await record(session, replace(plan, items=[OTHERS["answer"]]), cast(Faces, suite), lambda: None)

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
