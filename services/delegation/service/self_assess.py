"""Agents assess themselves on a task, without anybody solving it."""

import time

from inference.spend import Spend
from kernel.envelope import limits
from kernel.learning.profiles import reading
from services.delegation.service.process import ProcessContext, dimensions_of
from services.delegation.service.self_assessment import SelfAssessor
from services.delegation.service.task_context import TaskContext, participants, question_text, rules_in_force, speakers
from services.delegation.service.values import SelfAssessRequest, SelfAssessResponse


async def self_assess(ask: SelfAssessRequest, *, hub: ProcessContext) -> SelfAssessResponse:
    """Each agent's assessment, in the order asked.

    Raises:
        MalformedRequest, RequestOverLimit: For an unusable task.
        UnknownDimension, UnknownAgent, NoAgents: For what is not configured.
        UnpricedModel: When the cost is limited, and a model that takes part has no price.
        MetacogError: When the dimension had to be classified and could not be.
    """
    began = time.monotonic()
    agents = participants(ask.agents, hub.agents())
    work = TaskContext(
        question=question_text(ask.question, ask.messages, hub.defaults.task_characters),
        agents=agents,
        rules=rules_in_force(ask.parameters, hub.defaults.rules),
        spend=Spend(limits(ask.envelope, hub.defaults.limits), models=speakers(hub.voices, agents.values())),
        voices=hub.voices,
        emit=lambda _event: None,
        seed=ask.seed,
    )
    dimensions = await dimensions_of(ask, work, hub)
    profiles = await hub.profiles.of(list(agents), [one.dimension for one in dimensions])
    names = list(dict.fromkeys(ask.agents)) or list(agents)
    ledger = work.spend.ledger
    assessing = SelfAssessor(work, hub.recalibrations, alone=True)
    assessments = await assessing.all(names, {name: reading(of) for name, of in profiles.items()})
    return SelfAssessResponse(
        assessments=assessments,
        dimensions=dimensions,
        parameters=work.rules,
        usage=ledger.usage(),
        budget_exhausted=ledger.exhausted,
        duration_ms=round((time.monotonic() - began) * 1000, 3),
    )
