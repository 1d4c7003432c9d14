"""`metacog calibrate`, as a person types it."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.special import expit

from cli.terminal.exits import UNREACHABLE, USAGE
from configuration.routing import read_routing
from tests.support.apis import RestApi
from tests.support.arbiter import arbiter_at, sample_text
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROOT, ROUTER, TROUBLED, cast, router_at

TERMS = ("correctness", "conflict", "importance", "experience")


def metacog(*words: object) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "cli", "calibrate", *map(str, words)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def written(folder: Path, lines: list[dict[str, Any]]) -> Path:
    file = folder / "records.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def decided_by_conflict(n: int) -> list[dict[str, Any]]:
    """Answers that are wrong where signals conflict, whatever else is measured."""
    rng = np.random.default_rng(3)
    made = []
    for state in np.round(rng.random((n, 4)), 3):
        wrong = rng.random() < expit(10 * (state[1] - 0.5))
        made.append({"msv": dict(zip(TERMS, map(float, state), strict=True)), "correct": not wrong})
    return made


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return written(tmp_path, decided_by_conflict(300))


def test_a_threshold_is_chosen_for_a_wanted_share(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "routing.yaml"

    done = metacog("--share", 0.2, "--records", records, "--out", out)

    assert done.returncode == 0, done.stderr
    made = read_routing(out)
    assert made.weights is not None
    assert [getattr(made.weights, term) for term in TERMS] == [0.30, 0.25, 0.25, 0.20]
    levels = [line["msv"] for line in map(json.loads, records.read_text().splitlines())]
    reached = sum(
        0.3 * (1 - m["correctness"]) + 0.25 * m["conflict"] + 0.25 * m["importance"] + 0.2 * (1 - m["experience"])
        >= (made.threshold or 0)
        for m in levels
    )
    assert reached == 60
    assert "System 2 share of these decisions: 0.200 [0.159, 0.249] (60 of 300)" in done.stdout
    assert (made.version[:11], made.undetermined) == ("calibrated-", "SYSTEM_TWO")


def test_weights_are_fitted_where_the_labels_support_it(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "routing.yaml"

    done = metacog("--fit", "--share", 0.3, "--records", records, "--out", out, "--json", "--version", "mine")

    assert done.returncode == 0, done.stderr
    reported, made = json.loads(done.stdout), read_routing(out)
    assert (made.version, reported["gain_shown"]) == ("mine", True)
    assert made.weights is not None
    assert made.weights.conflict > 0.7
    assert reported["after"]["auroc"] > reported["before"]["auroc"] + 0.1
    assert reported["before"]["positives"] + reported["before"]["negatives"] == reported["decisions"] == 300
    assert reported["system_two_share"] == pytest.approx(0.3, abs=0.005)


def test_without_a_gain_the_weights_do_not_change_and_the_report_states_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    lines = [{**line, "correct": bool(rng.random() < 0.5)} for line in decided_by_conflict(120)]

    done = metacog("--fit", "--records", written(tmp_path, lines))

    assert done.returncode == 0, done.stderr
    assert "no gain: " in done.stdout
    reported = yaml.safe_load(done.stdout[done.stdout.index("version:") :])
    assert (list(reported["weights"].values()), reported["threshold"]) == ([0.30, 0.25, 0.25, 0.20], 0.45)


def test_the_weights_in_force_are_taken_from_a_file(records: Path, tmp_path: Path) -> None:
    routing = tmp_path / "in-force.yaml"
    weights = {"correctness": 0.1, "conflict": 0.2, "importance": 0.3, "experience": 0.4}
    routing.write_text(yaml.safe_dump({"version": "old", "weights": weights, "undetermined": "SYSTEM_ONE"}))

    done = metacog("--share", 0.5, "--records", records, "--routing", routing, "--json")

    reported = json.loads(done.stdout)
    assert (reported["weights"], reported["undetermined"]) == (weights, "SYSTEM_ONE")
    assert reported["fitted_weights"] is None


def test_what_is_undetermined_counts_in_the_share(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"msv": {"importance": 0.5}},
        {"msv": {}},
        *({"msv": {"correctness": 1, "conflict": c}} for c in (0, 1)),
    ]

    reported = json.loads(metacog("--share", 0.5, "--records", written(tmp_path, lines * 25), "--json").stdout)

    assert (reported["decisions"], reported["undetermined_decisions"], reported["system_two_share"]) == (100, 50, 0.5)
    assert reported["before"]["auroc"] is None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: "),
        ("[1]", "line 2: it is not an object"),
        ('{"correct": true}', "line 2: msv: "),
        ('{"msv": {"correctness": 1.5}}', "line 2: correctness is 1.5; it must lie in [0, 1]"),
        ('{"msv": {"certainty": 0.5}}', "line 2: msv.certainty: "),
        ('{"msv": {}, "correct": 7}', "line 2: correct"),
    ],
)
def test_the_error_for_an_invalid_line_names_it(tmp_path: Path, line: str, complaint: str) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text('{"msv": {"correctness": 0.5, "conflict": 0.5}}\n' + line + "\n")

    done = metacog("--share", 0.2, "--records", file)

    assert done.returncode == USAGE
    assert complaint in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        ((), USAGE, "give --share, --fit or both; for a cascade --cost"),
        (("--escalate", "strong"), USAGE, "give --cost or --share, or both, as the limit of the cascade"),
        (("--cost", 1, "--fit"), USAGE, "a cascade is chosen without --fit"),
        (("--share", 2), USAGE, "Input should be less than or equal to 1"),
        (
            ("--share", 0.2, "--records", "/nowhere/records.jsonl"),
            USAGE,
            "/nowhere/records.jsonl cannot be read: No such file",
        ),
        (
            ("--share", 0.2, "--router", f"http://{NO_SERVER}"),
            UNREACHABLE,
            f"the router at http://{NO_SERVER} cannot be reached",
        ),
    ],
)
def test_an_impossible_request_raises_an_error(words: tuple[object, ...], status: int, complaint: str) -> None:
    done = metacog(*words)

    assert done.returncode == status
    assert complaint in done.stderr


def test_weights_are_not_fitted_to_too_few_labels(tmp_path: Path) -> None:
    lines = [{**line, "correct": True} for line in decided_by_conflict(50)]

    done = metacog("--fit", "--records", written(tmp_path, lines))

    assert done.returncode == 1
    assert "0 wrong and 50 right answers of System 1 are too few to fit weights to; at least 5 of each" in done.stderr


def test_a_threshold_for_a_share_needs_a_hundred_decisions(tmp_path: Path) -> None:
    done = metacog("--share", 0.2, "--records", written(tmp_path, decided_by_conflict(99)))

    assert done.returncode == 1
    complaint = "99 decisions with a measured state are too few to choose a threshold for a share; at least 100 are"
    assert complaint in " ".join(done.stderr.split())


def answered_by_models(n: int) -> list[dict[str, Any]]:
    """Questions that three small models answer alike and rightly, but for every fourth, where they divide."""
    made = []
    for at in range(n):
        given = {"a": "4", "b": "4.0", "c": "4"} if at % 4 else {"a": "5", "b": "6", "c": "7"}
        answers = {
            name: {"answer": answer, "correct": answer in ("4", "4.0"), "cost": 0.001} for name, answer in given.items()
        }
        answers["strong"] = {"answer": "4", "correct": True, "cost": 0.05}
        made.append({"answers": answers, "answer_type": "NUMBER"})
    return made


def test_the_rule_of_a_cascade_is_chosen_for_a_cost(tmp_path: Path) -> None:
    out = tmp_path / "policy.yaml"

    done = metacog("--cost", 0.02, "--records", written(tmp_path, answered_by_models(120)), "--out", out)

    assert done.returncode == 0, done.stderr
    [row] = yaml.safe_load(out.read_text())["rows"]
    assert row == {
        "name": "small-first",
        "always": True,
        "strategy": "cascade",
        "sources": ["a", "b"],
        "agree": 2,
        "most": 2,
        "escalate": "strong",
    }
    # two answers for 0.001 each, and the strong one on a quarter: 0.002 + 0.25 · 0.05
    assert "share right 1.000 [1.000, 1.000], escalated 0.250 [" in done.stdout
    assert "mean cost 0.01450 [" in done.stdout
    assert "# labelled questions: 120; left out: none" in out.read_text()


def test_a_share_limits_what_a_cascade_escalates(tmp_path: Path) -> None:
    records = written(tmp_path, answered_by_models(120))
    words = ("--escalate", "strong", "--source", "a", "--source", "b", "--records", records, "--json")

    wide = json.loads(metacog("--share", 0.25, *words).stdout)
    narrow = json.loads(metacog("--share", 0.2, *words).stdout)

    assert (wide["rule"]["escalate"], wide["evidence"]["escalated"]["value"]) == ("strong", 0.25)
    assert wide["over_random"]["low"] > 0
    assert (narrow["rule"], narrow["row"]["strategy"]) == ({"sources": ["a"], "agree": 1, "escalate": ""}, "system1")


@pytest.mark.parametrize(
    ("count", "share", "complaint"),
    [
        (99, 0.25, "99 labelled questions are too few to choose a rule; at least 100 are needed"),
        (150, 0.1, "150 labelled questions are too few to choose a rule; at least 200 are needed"),
    ],
)
def test_a_cascade_is_not_chosen_from_too_few_labels(tmp_path: Path, count: int, share: float, complaint: str) -> None:
    out = tmp_path / "policy.yaml"
    records = written(tmp_path, answered_by_models(count))

    done = metacog("--share", share, "--escalate", "strong", "--records", records, "--out", out)

    assert (done.returncode, out.exists()) == (1, False)
    assert complaint in " ".join(done.stderr.split())


def test_the_error_for_an_invalid_answer_names_its_line(tmp_path: Path) -> None:
    good, bad = answered_by_models(2)
    bad["answers"]["a"]["correct"] = 7

    done = metacog("--cost", 1, "--records", written(tmp_path, [good, bad]))

    assert done.returncode == USAGE
    assert "line 2: answers.a.correct" in done.stderr


def test_an_empty_file_teaches_nothing(tmp_path: Path) -> None:
    done = metacog("--share", 0.2, "--records", written(tmp_path, []))

    assert (done.returncode, "there is no decision" in done.stderr) == (1, True)


def test_an_existing_file_is_overwritten_only_with_force(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "routing.yaml"
    out.write_text("threshold: 0.5\n")

    rejected = metacog("--share", 0.2, "--records", records, "--out", out)
    before = out.read_text()
    forced = metacog("--share", 0.2, "--records", records, "--out", out, "--force")

    assert (rejected.returncode, before, forced.returncode) == (2, "threshold: 0.5\n", 0)
    assert "exists already" in rejected.stderr
    assert read_routing(out).threshold != 0.5


async def labelled_run(api: RestApi, conflict: float) -> None:
    msv = {"correctness": 0.9, "conflict": conflict, "importance": 0.1, "experience": 0.9}
    run = (await api.ask("Answer", question="What is two and two?", strategy="system1", msv=msv))["run"]
    wanted = {"run_id": run["run_id"], "feedback_id": run["run_id"]}
    await api.ask("SubmitFeedback", **wanted, correct=conflict < 0.5)


async def test_runs_of_a_router_are_learned_from(own_database_url: str, scripted: ScriptedLLM, tmp_path: Path) -> None:
    scripted.answer = cast(TROUBLED)
    out = tmp_path / "routing.yaml"
    async with router_at(scripted, own_database_url, tmp_path) as running:
        api = RestApi(running.rest, ROUTER)
        for _ in range(25):
            async with asyncio.TaskGroup() as group:
                for conflict in (0.1, 0.2, 0.3, 0.9):
                    group.create_task(labelled_run(api, conflict))

        words = ("--share", 0.25, "--router", running.rest, "--out", out, "--limit", 100, "--json")
        done = await asyncio.to_thread(metacog, *words)

    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert (reported["decisions"], reported["system_two_share"], reported["before"]["auroc"]) == (100, 0.25, 1.0)
    # .3 · .1 + .25 c + .25 · .1 + .2 · .1 is .15 for c = .3 and .3 for c = .9; their middle to two decimals
    assert reported["threshold"] == pytest.approx(0.225, abs=0.006)
    assert read_routing(out).threshold == reported["threshold"]


async def test_votes_of_a_router_are_learned_from(own_database_url: str, scripted: ScriptedLLM, tmp_path: Path) -> None:
    """Each run has the direct answer and two votes with reasoning; three are far too few to choose a rule from."""
    scripted.answer = lambda body: [sample_text("4") if "Final Answer" in str(body["messages"][-1]) else "It is 5."]
    async with (
        arbiter_at(scripted, programs=False) as arbiter,
        router_at(scripted, own_database_url, tmp_path, others={"arbiter": arbiter.grpc}) as running,
    ):
        api = RestApi(running.rest, ROUTER)
        for number in range(3):
            run = (await api.ask("Answer", question=f"What is {number} + {4 - number}?", strategy="vote"))["run"]
            await api.ask("SubmitFeedback", run_id=run["run_id"], feedback_id=run["run_id"], correct=True)

        words = ("--share", 0.5, "--router", running.rest)
        chosen = await asyncio.to_thread(metacog, *words, "--escalate", "scripted REASONED")
        open_ = await asyncio.to_thread(metacog, *words, "--source", "scripted")

    assert chosen.returncode == 1
    assert "3 labelled questions are too few to choose a rule; at least 100 are needed" in " ".join(
        chosen.stderr.split()
    )
    assert "which model is the strong one is open, since no cost of" in " ".join(open_.stderr.split())
