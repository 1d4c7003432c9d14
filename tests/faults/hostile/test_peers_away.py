"""A dialectic whose peers are away ends within its envelope, with an answer of System 1 or a named error."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.hostile.suite import suite
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import cast

ENVELOPE_S, SPARE_S = 5.0, 3.0


@pytest.fixture(scope="module")
def database(new_database: Callable[[], str]) -> str:
    """A database of these tests alone."""
    return new_database()


@pytest.mark.parametrize("stops", [signal.SIGKILL, signal.SIGSTOP], ids=["away", "frozen"])
@pytest.mark.parametrize("fallback", [True, False], ids=["fallback", "no fallback"])
async def test_a_dialectic_whose_assigner_is_away_ends_within_its_envelope(
    scripted: ScriptedLLM, database: str, tmp_path: Path, stops: signal.Signals, fallback: bool
) -> None:
    scripted.answer = cast(system1="It is so.")
    async with suite(scripted.url, database, tmp_path) as running:
        assigner = running.services["assigner"].inner.pid
        os.kill(assigner, stops)
        try:
            began = time.monotonic()
            reply = await running.client.post(
                "/v1/answers",
                json={
                    "question": "Is it so?",
                    "strategy": "dialectic",
                    "fallback": fallback,
                    "envelope": {"timeout_ms": int(1000 * ENVELOPE_S)},
                },
            )
            took_s = time.monotonic() - began
        finally:
            if stops is signal.SIGSTOP:
                os.kill(assigner, signal.SIGCONT)

    assert took_s < ENVELOPE_S + SPARE_S
    if fallback:
        assert reply.json()["run"]["answer"] == "It is so."
    else:
        assert reply.json()["reason"] in ("PEER_UNAVAILABLE", "DEADLINE_EXCEEDED")
