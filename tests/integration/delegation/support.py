"""Agents of one test alone, and a model that says what they say."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.support.delegating import AGENTS, Cast, Delegation, delegation_at, new_names, stage_of, who
from tests.support.scripted_llm import ScriptedLLM

TASK = {"question": "What is 20 + 20?", "dimension": "math_computation"}
RIGHT = {"answer": "40", "answer_type": "NUMBER"}


class Stage:
    """Agents of this test alone, and a model that says what they say."""

    def __init__(self, llm: ScriptedLLM, running: Delegation, names: dict[str, str]) -> None:
        self.llm = llm
        self.running = running
        self.names = names

    def says(
        self, answers: dict[str, str] | None = None, judge: int = 90, same: Sequence[int] = (), **rated: int | str
    ) -> None:
        """What agents say of themselves and of tasks, by their plain names."""
        self.llm.answer = Cast(
            {self.names[name]: level for name, level in rated.items()},
            {self.names[name]: text for name, text in (answers or {}).items()},
            judge=judge,
            same=same,
        )

    async def process(self, face: str, **ask: Any) -> dict[str, Any]:  # noqa: ANN401
        """The finished task, with plain names."""
        given = {**TASK, **ask}
        if "first_agent" in given:
            given["first_agent"] = self.names[given["first_agent"]]
        return self.plain(await self.running.face(face).ask("Process", **given))

    def plain(self, told: Any) -> Any:  # noqa: ANN401
        """What was told, with plain names."""
        if isinstance(told, dict):
            return {self.plain(key): self.plain(item) for key, item in told.items()}
        if isinstance(told, list):
            return [self.plain(item) for item in told]
        return {new: old for old, new in self.names.items()}.get(told, told) if isinstance(told, str) else told

    def calls(self, stage: str) -> list[str]:
        """Agents that were called for `stage`, by their plain names."""
        return [self.plain(who(body)) for body in self.llm.bodies if stage_of(body) == stage]


@asynccontextmanager
async def staged(llm: ScriptedLLM, database: str, **more: Any) -> AsyncIterator[Stage]:  # noqa: ANN401
    agents, names = new_names(more.pop("agents", AGENTS))
    async with delegation_at(llm, database, agents=agents, **more) as running:
        yield Stage(llm, running, dict(names))


async def imported(stage: Stage, **competences: float) -> None:
    """Give agents a record in arithmetic."""
    profiles = [
        {
            "profile": {
                "agent": stage.names[name],
                "dimension": "math_computation",
                "competence": level,
                "observations": 50,
            }
        }
        for name, level in competences.items()
    ]
    await stage.running.face("rest").ask("ImportProfiles", profiles=profiles)
