"""Several models and precisions in one table, heterogeneous teams, and what their requests ask for."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.__main__ import app
from cli.evaluation.common import set_names
from evals.dialectic.files import arms as dialectic_arms
from evals.errors import RecordsUnusable
from evals.harness.arms import Arm, described
from evals.harness.manifest import require_resumable
from evals.mc_mas.arms import FULL, Sampling, arms
from evals.mc_mas.figures import curve
from evals.mc_mas.files import COMMAND, write_report
from evals.records import Record
from evals.stats.chance import seeded
from tests.support.evaluation_records import an_item, introduced
from tests.support.evaluation_replies import arbitration, reply, run_record, sample, spent
from tests.unit.evals.test_mc_mas import FOUR


def body(arm: Arm, **replies: Record) -> Any:  # noqa: ANN401
    call = arm.call(an_item(1), 7, replies)
    assert call is not None
    return call.body


def recorded(model: str, precision: str, right: Sequence[bool], dataset: str = "boolq") -> list[Record]:
    """Questions that one model arbitrates right, or wrong; its solvers are right on every one."""
    made: list[Record] = [run_record(COMMAND, FULL)]
    made[0] = {**made[0], "arms": {FULL: {"precision": precision} if precision else {}}}
    for number, is_right in enumerate(right):
        name = f"{dataset}-{number}"
        samples = [sample("4", 0), sample("4", 1), sample("4" if is_right else "5")]
        told = {"solver_results": [{"model": model}], "arbiter_model": model}
        whole = arbitration("4" if is_right else "5", samples, critiques=[], **told)
        made += [introduced(name, dataset=dataset), reply(name, FULL, whole, path="/v1/arbitrations")]
    return made


def test_models_and_precisions_stand_in_one_table_named_as_the_paper_does(tmp_path: Path) -> None:
    quarter = recorded("mistral", "4-bit", [True, True, True, False] * 5)
    half, other = recorded("mistral", "full", [True, False] * 10), recorded("llama", "", [True] * 20, "arc_easy")

    report = write_report(quarter, tmp_path, seeded(7, draws=50), beside=[half, other])

    rows = re.findall(r"\| (mistral|llama) \| ([^|]+) \| ([^|]+) \| 100.0 \(1\) \| ([\d.]+) \(1\) \|", report)
    assert rows == [
        ("mistral", "4-bit", "BoolQ (20)", "75.0"),
        ("mistral", "full", "BoolQ (20)", "50.0"),
        ("llama", "not stated", "ARC-Easy (20)", "100.0"),
    ]
    # Twenty items show a gain of 1.96 sqrt(1 / 6 / 20) = 17.9 points.
    assert report.count("| 17.9 |") == 3
    assert "- power: a gain of 17.9 points or more would show, where one item in six differs" in report
    assert "**Table 1, all models.**" not in write_report(quarter, tmp_path, seeded(7, draws=50))


def test_a_run_is_not_continued_by_another_precision() -> None:
    before = recorded("mistral", "4-bit", [True])
    now = {**run_record(COMMAND, FULL), "arms": {FULL: {"precision": "full"}}, "seeding": None}

    with pytest.raises(RecordsUnusable, match=r"'precision': '4-bit'.*'precision': 'full'"):
        require_resumable(now, before, fixed=())


def test_what_is_not_stated_is_no_setting() -> None:
    [plain] = described(arms(Sampling(), equal_compute=False)[:1], precision="")
    [stated] = described([plain], precision="4-bit")

    assert "precision" not in plain.settings
    assert stated.settings == {**plain.settings, "precision": "4-bit"}


def test_solvers_of_different_models_have_a_control_each() -> None:
    sampling = Sampling(solver_agents=("llama", "qwen"), critic_agent="qwen", arbiter_agent="phi")
    full, *others = arms(sampling)

    asked = body(full)
    controls = [arm for arm in others if arm.name.startswith("self-consistency")]

    assert (asked["solver_agents"], asked["critic_agent"], asked["arbiter_agent"]) == (["llama", "qwen"], "qwen", "phi")
    assert [arm.name for arm in controls] == ["self-consistency:llama", "self-consistency:qwen"]
    made = {FULL: {"usage": spent(12)}}
    assert [body(arm, **made)["solver_agents"] for arm in controls] == [["llama"], ["qwen"]]
    assert [body(arm, **made)["self_consistency_samples"] for arm in controls] == [12, 12]
    # Without agents the requests and settings are those of the service's own.
    assert "solver_agents" not in arms(Sampling())[0].settings
    assert [arm.name for arm in arms(Sampling())][1] == "self-consistency"


def test_controls_of_both_models_are_compared_with_the_whole(tmp_path: Path) -> None:
    made = recorded("llama", "", [True] * 12)
    for number in range(12):
        for agent, answer in (("llama", "4"), ("qwen", "5")):
            told = arbitration(answer, usage=spent(5))
            made.append(reply(f"boolq-{number}", f"self-consistency:{agent}", told, path="/v1/arbitrations"))

    report = write_report(made, tmp_path, seeded(7, draws=50))

    assert re.search(r"\| BoolQ \(12\) \| self-consistency:llama \| 1\.00 .*\| \*\*no gain\*\* \|", report)
    assert re.search(r"\| BoolQ \(12\) \| self-consistency:qwen \| 0\.00 .*\| \*\*gain\*\* \|", report)


def test_a_team_of_different_models_deliberates_in_every_assignment() -> None:
    made = [arm for arm in dialectic_arms(team=("llama", "qwen", "phi")) if "assignment_kind" in arm.settings]

    assert [arm.name for arm in made] == ["dialectic-stages", "roles-greedy", "roles-random"]
    assert {tuple(body(arm)["agents"]) for arm in made} == {("llama", "qwen", "phi")}
    assert {arm.settings["agents"] for arm in made} == {"llama,qwen,phi"}


def test_entropy_falls_by_what_the_arbiters_samples_leave() -> None:
    found = curve(FOUR, seeded(7, draws=50))

    # One sample has no entropy, so that all of the solvers' goes.
    solvers = [question.solved for question in FOUR]
    shares = [[sum(s.answer == "4" for s in some) / len(some) for some in solvers]]
    whole = found[0].reduction.value or 0.0
    assert whole == pytest.approx(sum(_entropy(share) for share in shares[0]) / 4)
    # With all ten the second question keeps the entropy of nine to one.
    assert found[-1].reduction.value == pytest.approx(whole - _entropy(0.1) / 4)


def _entropy(share: float) -> float:
    from math import log

    return -sum(part * log(part) for part in (share, 1 - share) if part)


def test_sets_may_be_named_as_the_papers_do() -> None:
    assert set_names("BoolQ, ARC-Easy,StrategyQA,GSM8K,sums,boolq") == (
        "boolq", "arc_easy", "strategyqa", "gsm8k", "sums",
    )  # fmt: skip


def test_two_rules_that_learn_are_not_run_on_the_same_profiles(tmp_path: Path) -> None:
    words = ["eval", "delegation", "--live", "--product", "--data", str(tmp_path), "--out", str(tmp_path / "out")]

    ended = CliRunner().invoke(app, words, env={"COLUMNS": "200"})

    assert ended.exit_code == 2
    assert "both teach the same profiles" in ended.output
