"""The five-role dialectic: assess, assign, thesis, antithesis, resolution, synthesis, and the watcher outside.

Source: SPEC 1.3-1.5. Everything one request does shares one `Spend`; what the envelope cannot carry is left out in the
order measurements, note, self-assessments, stages, and said.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from chassis.affect import AffectAnalyser
from chassis.agents import AgentConfig
from chassis.events import emitted
from chassis.wire import MalformedRequest
from kernel.assignment import NoAgents
from kernel.envelope import Limits
from services.assigner.core.errors import UnknownAgent
from services.assigner.core.watcher import FAMILIAR, IMPORTANT
from services.assigner.service.course import Course
from services.assigner.service.seating import Policy, Seating
from services.assigner.service.speaking import Voices
from services.assigner.service.values import DeliberateRequest, Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a request that leaves something out gets.

    Attributes:
        limits: The envelope.
        stage_max_tokens: Tokens of one stage's text [count].
        input_max_tokens: Tokens of each earlier text in a prompt; longer ones are shortened [count].
        policy: How roles are given.
        important: Importance from which the generalist speaks [0..1].
        familiar: Experience above which it does not [0..1].
    """

    limits: Limits
    stage_max_tokens: int = 256
    input_max_tokens: int = 512
    policy: Policy = field(default_factory=Policy)
    important: float = IMPORTANT
    familiar: float = FAMILIAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Everybody and everything that a deliberation needs from the world."""

    agents: Callable[[], Sequence[AgentConfig]]
    voices: Voices
    affect: AffectAnalyser
    defaults: Defaults


def deliberate(ask: DeliberateRequest, *, bench: Bench) -> AsyncGenerator[Event, None]:
    """Events of one deliberation; the last is `DeliberationFinished`. Closing the iterator stops the work.

    Raises:
        MalformedRequest: Without a question, with two, or for a fixed assignment that leaves out a role.
        NoAgents: When nobody is configured.
        UnknownAgent: For an agent that is not configured.
        InfeasibleAssignment: When the agents may not hold five roles.
        MetacogError: The refusal that left no answer at all.
    """
    agents = _participants(ask, bench.agents())
    question = _question(ask)
    seating = Seating(ask, agents, bench.defaults.policy)
    return emitted(lambda emit: Course(ask, question, agents, seating, bench, emit).run())


def _participants(ask: DeliberateRequest, configured: Sequence[AgentConfig]) -> list[AgentConfig]:
    unknown = set(ask.agents) - {agent.id for agent in configured}
    if unknown:
        said = f"agents: {sorted(unknown)[0]!r} is not configured; there are {', '.join(a.id for a in configured)}"
        raise UnknownAgent(said, agent=sorted(unknown)[0])
    chosen = [agent for agent in configured if not ask.agents or agent.id in ask.agents]
    if not chosen:
        raise NoAgents("no agents are configured")
    return sorted(chosen, key=lambda agent: agent.id)


def _question(ask: DeliberateRequest) -> str:
    """The question as one text: a conversation of several turns as its transcript."""
    if ask.question.strip() and ask.messages:
        raise MalformedRequest("give either question or messages", field="question")
    turns = [turn for turn in ask.messages if turn.content.strip()]
    if len(turns) == 1 and not ask.question:
        return turns[0].content
    text = "\n\n".join(f"{turn.role}: {turn.content}" for turn in turns) if turns else ask.question
    if not text.strip():
        raise MalformedRequest("give a question, or messages with some text", field="question")
    return text
