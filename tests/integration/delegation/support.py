"""A scenario is a delegation service with agents of one test alone, and a scripted model that replies for them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.support.delegating import (
    AGENTS,
    Delegation,
    ScriptedAgents,
    agent_of,
    delegation_at,
    renamed_agents,
    stage_of,
)
from tests.support.models.scripted_llm import ScriptedLLM

TASK = {"question": "What is 20 + 20?", "dimension": "math_computation"}
RIGHT = {"answer": "40", "answer_type": "NUMBER"}


class Scenario:
    """A scenario is a running service with agents of one test alone, and a scripted model that replies for them."""

    def __init__(self, llm: ScriptedLLM, service: Delegation, names: dict[str, str]) -> None:
        self.llm = llm
        self.service = service
        self.names = names

    def script(
        self, answers: dict[str, str] | None = None, judge: int = 90, same: Sequence[int] = (), **ratings: int | str
    ) -> None:
        """Set the answers and the self-assessments of agents, by their original names."""
        self.llm.answer = ScriptedAgents(
            {self.names[name]: rating for name, rating in ratings.items()},
            {self.names[name]: text for name, text in (answers or {}).items()},
            judge=judge,
            same=same,
        )

    async def process(self, api: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
        """Return the finished task, with original names."""
        given = {**TASK, **fields}
        if "first_agent" in given:
            given["first_agent"] = self.names[given["first_agent"]]
        finished: dict[str, Any] = self.original(await self.service.api(api).ask("Process", **given))
        return finished

    def original(self, response: Any) -> Any:  # noqa: ANN401
        """Return a response with the original names of the agents."""
        if isinstance(response, dict):
            return {self.original(key): self.original(item) for key, item in response.items()}
        if isinstance(response, list):
            return [self.original(item) for item in response]
        originals = {new: old for old, new in self.names.items()}
        return originals.get(response, response) if isinstance(response, str) else response

    def calls(self, stage: str) -> list[str]:
        """Return the agents that were called for `stage`, by their original names."""
        return [self.original(agent_of(body)) for body in self.llm.bodies if stage_of(body) == stage]


@asynccontextmanager
async def scenario_at(llm: ScriptedLLM, database: str, **more: Any) -> AsyncIterator[Scenario]:  # noqa: ANN401
    """Run a delegation service with agents of one test alone."""
    agents, names = renamed_agents(more.pop("agents", AGENTS))
    async with delegation_at(llm, database, agents=agents, **more) as service:
        yield Scenario(llm, service, dict(names))


async def import_profiles(scenario: Scenario, dimension: str = "math_computation", **competences: float) -> None:
    """Give agents a profile with 50 observations in a dimension."""
    profiles = [
        {
            "profile": {
                "agent": scenario.names[name],
                "dimension": dimension,
                "competence": competence,
                "observations": 50,
            }
        }
        for name, competence in competences.items()
    ]
    await scenario.service.api("rest").ask("ImportProfiles", profiles=profiles)
