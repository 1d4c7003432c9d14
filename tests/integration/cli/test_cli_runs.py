"""`metacog runs` and `metacog feedback`, as a person types them."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from chassis.serving.auth import TEACH, ApiKey, Keyring
from cli.terminal.exits import FORBIDDEN, UNREACHABLE
from tests.support.apis import RestApi
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROOT, ROUTER, RunningRouter, cast, environment, router_at

KEY = "mc-anns-key"
ANN = ApiKey(name="ann", sha256=sha256(KEY.encode()).hexdigest(), allowed=frozenset({TEACH}))
ODD = "It is [bold]so[/bold]\x1b[31m!"


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    scripted.answer = cast(system1=ODD)
    async with router_at(scripted, database_url, tmp_path, keyring=Keyring([ANN]), label_share=1.0) as running:
        yield running


async def metacog(*words: str, key: str = KEY) -> "subprocess.CompletedProcess[str]":
    """Run the command."""
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "cli", *words],
        cwd=ROOT,
        env=environment(METACOG_API_KEY=key, COLUMNS=200),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def answered(router: RunningRouter, **ask: Any) -> str:  # noqa: ANN401
    """Name of a run."""
    api = RestApi(router.rest, ROUTER, headers={"authorization": f"Bearer {KEY}"})
    name: str = (await api.ask("Answer", question="Is it so?", strategy="system1", **ask))["run"]["run_id"]
    return name


async def test_feedback_is_stored_and_shown_with_its_run(router: RunningRouter) -> None:
    run_id = await answered(router)

    given = await metacog(
        "feedback", run_id, "--score", "0.7", "--note", "nearly", "--origin", "SAMPLED", "--router", router.rest
    )
    again = await metacog("feedback", run_id, "--wrong", "--router", router.rest)
    listed = await metacog("runs", "list", "--judged", "--limit", "1", "--router", router.rest)
    shown = await metacog("runs", "show", run_id, "--router", router.rest)

    assert (given.returncode, given.stderr) == (0, "")
    assert "stored; used by:" in given.stdout
    assert (again.returncode, "FEEDBACK_CONFLICT" in again.stderr) == (1, True)
    assert run_id in listed.stdout
    assert "0.7 (sampled) nearly" in shown.stdout
    assert "user: Is it so?" in shown.stdout
    assert "answer: It is [bold]so[/bold]\N{REPLACEMENT CHARACTER}[31m!" in shown.stdout


async def test_the_same_feedback_may_be_sent_again(router: RunningRouter) -> None:
    run_id = await answered(router)
    words = ("feedback", run_id, "--correct", "--feedback-id", f"cli-{run_id}", "--router", router.rest, "--json")

    first, again = await metacog(*words), await metacog(*words)

    assert json.loads(first.stdout) == json.loads(again.stdout)
    assert json.loads(first.stdout)["feedback_id"] == f"cli-{run_id}"


async def test_runs_are_listed_over_pages_and_filtered(router: RunningRouter) -> None:
    names = [await answered(router, request_id=f"cli-{n}-{router.rest[-5:]}") for n in range(3)]

    newest = await metacog("runs", "list", "--limit", "2", "--json", "--router", router.rest)
    asked = f"cli-1-{router.rest[-5:]}"
    one = await metacog(
        "runs", "list", "--request-id", asked, "--outcome", "ANSWERED", "--json", "--router", router.rest
    )

    assert [run["run_id"] for run in json.loads(newest.stdout)["runs"]] == [names[2], names[1]]
    assert [run["run_id"] for run in json.loads(one.stdout)["runs"]] == [names[1]]


@pytest.mark.parametrize(
    ("words", "expected_text"),
    [
        (("runs", "show", "nobody"), "RUN_NOT_FOUND"),
        (("runs", "list", "--system", "THREE"), "MALFORMED_REQUEST"),
        (("feedback", "nobody", "--correct"), "RUN_NOT_FOUND"),
    ],
)
async def test_an_error_is_printed_with_its_reason(
    router: RunningRouter, words: tuple[str, ...], expected_text: str
) -> None:
    rejected = await metacog(*words, "--router", router.rest)

    assert rejected.returncode == 1
    assert expected_text in rejected.stderr
    assert "Traceback" not in rejected.stderr


async def test_the_error_for_a_missing_key_names_its_setting(router: RunningRouter) -> None:
    rejected = await metacog("runs", "list", "--router", router.rest, key="")

    assert (rejected.returncode, "METACOG_API_KEY" in rejected.stderr) == (FORBIDDEN, True)


async def test_an_unreachable_router_raises_an_error() -> None:
    rejected = await metacog("runs", "list", "--router", f"http://{NO_SERVER}")

    assert rejected.returncode == UNREACHABLE
    assert rejected.stderr.startswith(f"the router at http://{NO_SERVER} cannot be reached")


async def test_feedback_must_contain_a_label() -> None:
    for words in ((), ("--correct", "--score", "1"), ("--score", "2")):
        assert (await metacog("feedback", "run", *words)).returncode == 2


async def test_a_run_says_which_rule_decided_and_why_its_kind_is_unknown(router: RunningRouter) -> None:
    api = RestApi(router.rest, ROUTER, headers={"authorization": f"Bearer {KEY}"})
    run = (await api.ask("Answer", question="Is it so?"))["run"]
    assert await router.journal.flush(10)

    shown = " ".join((await metacog("runs", "show", run["run_id"], "--router", router.rest)).stdout.split())

    assert "decided by the activation kind unknown (NO_ENCODER: " in shown
    assert "gain of System 2" not in shown  # of an unknown kind there is none
