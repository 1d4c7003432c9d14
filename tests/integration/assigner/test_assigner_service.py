"""The assigner as the process that is deployed: its weights file, and requests as large as the contract allows."""

import asyncio
from pathlib import Path

import pytest

from kernel.roles import DEFAULT_WEIGHTS, Role
from services.assigner.compose import CONTRACT as ASSIGNER
from tests.support.apis import RestApi, RpcApi
from tests.support.stack import failed_start, process

STATE = {"correctness": 0.8, "experience": 0.4, "conflict": 0.5, "importance": 0.5, "emotional_response": 0.5}
WEIGHTS = "version: mine\nweights:\n  EXPERT: {correctness: 0.25, experience: 0.75}\n"


async def test_weights_are_read_at_the_start_and_their_version_is_named(tmp_path: Path) -> None:
    file = tmp_path / "roles.yaml"
    file.write_text(WEIGHTS)
    settings = {"METACOG_INFERENCE_MODEL": "nobody", "METACOG_ASSIGNER_ROLE_WEIGHTS_FILE": file}
    many = [{"id": f"agent-{place:05}", "msv": {**STATE, "correctness": place / 10_000}} for place in range(10_000)]

    async with process("assigner", **settings) as running:
        rest, rpc = RestApi(running.rest, ASSIGNER), RpcApi(running.grpc, ASSIGNER)
        configured = await rpc.ask("Assign", agents=[{"id": "a", "msv": STATE, "capacity": 5}])
        own = await rest.ask(
            "Assign", agents=[{"id": "a", "msv": STATE, "capacity": 5}], weights={"CRITIC": {"conflict": 1.0}}
        )
        largest = [await api.ask("Assign", agents=many, brief=True) for api in (rest, rpc)]

    assert configured["fitness"]["EXPERT"]["a"] == pytest.approx(0.5)  # 0.25 x 0.8 + 0.75 x 0.4
    assert configured["weights"]["CRITIC"] == DEFAULT_WEIGHTS[Role.CRITIC]
    assert (configured["weights_version"], own["weights_version"]) == ("mine", "")
    assert own["fitness"]["EXPERT"]["a"] == pytest.approx(0.5)  # a role that the request leaves out
    # The doubtful make critics. The synthesizer's and evaluator's 0.4 go to the surest, then the expert's 0.25; all are
    # alike to the generalist, who is the first agent that is left.
    assert largest[0]["assignment"] == largest[1]["assignment"]
    assert largest[0]["assignment"] == {
        "EXPERT": "agent-09997",
        "CRITIC": "agent-00000",
        "EVALUATOR": "agent-09998",
        "SYNTHESIZER": "agent-09999",
        "GENERALIST": "agent-00001",
    }
    assert (largest[0]["fitness"], largest[0]["terms"], largest[0]["partial"]) == ({}, {}, [])


async def test_weights_that_cannot_be_used_stop_the_start(tmp_path: Path) -> None:
    file = tmp_path / "roles.yaml"
    file.write_text(WEIGHTS.replace("0.75", "0.7"))

    refused = await asyncio.to_thread(failed_start, "assigner", METACOG_ASSIGNER_ROLE_WEIGHTS_FILE=file)

    assert refused.returncode == 2
    assert "line 3: weights: weights of EXPERT must be >= 0 and sum to 1" in refused.stderr
