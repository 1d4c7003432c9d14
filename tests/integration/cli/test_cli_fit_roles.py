"""`metacog fit-roles`, as a person types it."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from metacog.assigner.v1 import assigner_pb2

from chassis.errors import ConfigurationInvalid
from chassis.redaction.messages import without_contents
from cli.calibration.recorded_deliberations import read_deliberations
from configuration.agents import AgentConfig
from configuration.role_weights import read_role_weights
from kernel.learning.contrasts import Deliberated
from kernel.roles import DEFAULT_WEIGHTS, ROLES
from tests.support.apis import RestApi
from tests.support.assigner import assigner_at
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.models.simulated_deliberations import TRUTH, distance, simulated
from tests.support.stack import NO_SERVER, ROOT, ROUTER, cast, rating, router_at

Line = dict[str, Any]
DELIBERATION = assigner_pb2.DeliberationFinished.DESCRIPTOR


def metacog(*words: object) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "cli", "fit-roles", *map(str, words)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def line(each: Deliberated) -> Line:
    """A deliberation with its label, as the assigner reports it and a person labels it."""
    states = zip(each.agents, each.msvs, strict=True)
    roles = {
        "assignment": {role: each.agents[place] for role, place in zip(ROLES, each.chosen, strict=True)},
        "propensity": each.propensity,
        "reason": "",
        "capacities": dict(zip(each.agents, each.capacities, strict=True)),
    }
    reported = {"assessments": [{"agent": agent, "msv": asdict(msv)} for agent, msv in states], "roles": roles}
    return {"deliberation": reported, "correct": each.score >= 0.5}


def written(folder: Path, lines: Sequence[Line]) -> Path:
    file = folder / "records.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return file


LINES = [line(each) for each in simulated(300)]


def test_weights_are_fitted_where_the_labels_support_it(tmp_path: Path) -> None:
    out = tmp_path / "roles.yaml"

    done = metacog("--records", written(tmp_path, LINES), "--out", out, "--json", "--version", "mine")

    assert done.returncode == 0, done.stderr
    reported, result = json.loads(done.stdout), read_role_weights(out)
    assert (result.version, reported["gain_shown"], reported["taken"], reported["left_out"]) == ("mine", True, True, {})
    assert distance(result.weights, TRUTH) < distance(DEFAULT_WEIGHTS, TRUTH) / 2
    assert reported["gain"]["low"] > 0
    assert reported["gain_over_control"]["low"] > 0
    assert (reported["deliberations"], reported["version_before"]) == (300, "default")
    assert reported["not_learned"]["GENERALIST"] == ["importance", "conflict", "emotional_response"]


def test_random_labels_do_not_change_the_weights_and_the_report_states_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    lines = [{**each, "correct": bool(rng.random() < 0.5)} for each in LINES[:150]]
    out = tmp_path / "roles.yaml"

    done = metacog("--records", written(tmp_path, lines), "--out", out)

    assert done.returncode == 0, done.stderr
    assert "no gain: not both intervals lie above 0; the weights do not change" in done.stdout
    assert "generalist: importance 0.4 -> 0.4, conflict 0.3 -> 0.3, emotional_response 0.3 -> 0.3" in done.stdout
    result = read_role_weights(out)
    assert result.weights == DEFAULT_WEIGHTS
    assert result.version.startswith("kept-")


def test_unusable_deliberations_are_counted_by_reason(tmp_path: Path) -> None:
    first = LINES[0]["deliberation"]
    again = {**first, "roles": {**first["roles"], "reason": "ada failed as CRITIC"}}
    certain = {**first, "roles": {**first["roles"], "propensity": 1.0}}
    odd = [
        {"deliberation": first},
        {"deliberation": None, "correct": True},
        {"deliberation": again, "correct": True},
        {"deliberation": {**first, "degraded": True}, "correct": True},
        {"deliberation": certain, "correct": True},
        {"deliberation": first, "feedback": [{"teaches": False, "score": 1.0}]},
    ]

    done = metacog("--records", written(tmp_path, odd))

    assert done.returncode == 1
    assert "0 right and 0 wrong answers of usable deliberations are too few to fit weights" in done.stderr
    assert "left out, roles not randomized: 1" in done.stderr
    assert "left out, degraded, or roles reassigned: 2" in done.stderr
    assert "left out, no deliberation: 1; left out, no label: 2" in done.stderr


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("{", "line 1: "),
        ("[1]", "line 1: it is not an object"),
        ('{"deliberation": {"roles": {}}, "correct": 7}', "line 1: correct: 7 is neither true, false nor a score"),
        ('{"deliberation": {"roles": {}}, "correct": true}', "line 1: "),
    ],
)
def test_the_error_for_an_invalid_line_names_it(tmp_path: Path, lines: str, complaint: str) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(lines + "\n")

    with pytest.raises(ConfigurationInvalid) as rejected:
        read_deliberations(file)

    assert complaint in rejected.value.message


def test_runs_without_stored_contents_are_used_too(tmp_path: Path) -> None:
    reported = [{**each, "deliberation": without_contents(each["deliberation"], DELIBERATION)} for each in LINES[:20]]

    kept, whole = read_deliberations(written(tmp_path, reported)), read_deliberations(written(tmp_path, LINES[:20]))

    assert kept.deliberations == whole.deliberations
    assert len(kept.deliberations) == 20


def test_an_unreachable_router_and_an_existing_file_raise_errors(tmp_path: Path) -> None:
    out = tmp_path / "roles.yaml"
    out.write_text("weights: {}\n")

    away = metacog("--router", f"http://{NO_SERVER}")
    there = metacog("--out", out)

    assert f"the router at http://{NO_SERVER} cannot be reached" in away.stderr
    assert (there.returncode, "exists already; --force overwrites it" in there.stderr) == (2, True)
    assert out.read_text() == "weights: {}\n"


async def test_runs_of_a_router_are_learned_from(database_url: str, scripted: ScriptedLLM, tmp_path: Path) -> None:
    scripted.answer = cast(rating(90, 60, 90, 5, 10, 10, 10))
    seated = [AgentConfig(id="ada"), AgentConfig(id="ben", system_prompt="You are Ben.")]
    async with (
        assigner_at(scripted, seated) as assigner,
        router_at(scripted, database_url, tmp_path, others={"assigner": assigner.grpc}) as running,
    ):
        api = RestApi(running.rest, ROUTER)
        for number in range(10):
            ask = {"question": "Is it so?", "strategy": "dialectic", "assignment_kind": "RANDOM", "seed": number}
            run = (await api.ask("Answer", **ask))["run"]
            await api.ask("SubmitFeedback", run_id=run["run_id"], feedback_id=run["run_id"], correct=bool(number % 2))

        done = await asyncio.to_thread(metacog, "--router", running.rest, "--limit", 10, "--json")

    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert (reported["deliberations"], reported["right"], reported["effective"]) == (10, 5, 10.0)
    assert reported["weights"] == {role.value: dict(DEFAULT_WEIGHTS[role]) for role in ROLES}  # both agents rate alike
