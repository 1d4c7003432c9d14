"""Parameters that System 2 has no use for are listed in the answer, whole or streamed."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import gateway, metacog_field
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import cast

GIVEN: dict[str, Any] = {"temperature": 0.2, "top_p": 0.9, "presence_penalty": 0.5, "logit_bias": {"5": 1}, "seed": 1}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_what_the_dialectic_cannot_use_is_listed_and_system_one_uses_all(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, stream: bool
) -> None:
    scripted.answer = cast()
    listed = {}
    async with gateway(scripted, database_url, tmp_path) as suite:
        for model in ("metacog/dialectic", "metacog/system1"):
            if stream:
                listed[model] = metacog_field((await suite.chunks(model, **GIVEN))[-1])["ignored"]
            else:
                listed[model] = metacog_field(await suite.ask(model, **GIVEN))["ignored"]

    assert listed["metacog/dialectic"] == ["logit_bias", "presence_penalty", "temperature", "top_p"]
    assert listed["metacog/system1"] == []
