"""The picture of a run holds everything that its page shows, and a change names the parts to render again.

Live, replayed and recorded runs have the same picture.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from metacog.arbiter.v1.arbiter_pb2 import Critique, SamplesDrawn, SolversFinished
from metacog.arbiter.v1.vote_pb2 import VoteCast
from metacog.assigner.v1.assigner_pb2 import AgentAssessed, RolesAssigned
from metacog.common.v1.msv_pb2 import MSV
from metacog.common.v1.stage_pb2 import StageFinished
from metacog.delegation.v1.tasks_pb2 import AnswerLabel, Assessment, ModeChosen, TaskDispatched, Vote
from metacog.router.v1.router_pb2 import FellBack, RouteResponse, Run

from console.errors import Notice
from kernel import roles

NOTE = roles.Stage.NOTE.value
CHAIN = tuple(stage.value for stage in roles.CHAIN)
AUTHORS = {stage.value: role.value for stage, role in roles.AUTHOR.items()}
PHASES: Mapping[str, tuple[str, ...]] = {
    "": ("assess", "route", "answer"),
    "system1": ("assess", "route", "answer"),
    "vote": ("assess", "route", "draft", "vote"),
    "cascade": ("assess", "route", "vote", "escalate"),
    "dialectic": ("assess", "route", "assign", *(stage.lower() for stage in CHAIN), "note"),
    "arbiter": ("assess", "route", "solve", "critique", "arbitrate", "measure"),
    "delegation": ("assess", "route", "classify", "self-assess", "decide", "answer"),
}

PROGRESS, DECISION, ASSIGNMENT, STAGES, EVOLUTION = "progress", "decision", "assignment", "stages", "evolution"
VOTES, ARBITRATION, DELEGATION, ANSWER = "votes", "arbitration", "delegation", "answer"
# Panels of every run; those of single stages and the evolution are inside the stages panel.
PANELS = (PROGRESS, ANSWER, DECISION, ASSIGNMENT, STAGES, VOTES, ARBITRATION, DELEGATION)
ANSWER_TEXT = "answer-text"


def stage_panel(stage: str) -> str:
    """Return the name of the panel of one stage."""
    return f"stage-{stage.lower()}"


def stage_text(stage: str) -> str:
    """Return the name of the place of one stage's text."""
    return f"text-{stage.lower()}"


@dataclass
class StageView:
    """One stage: its role and agent, and its text so far."""

    stage: str
    role: str = ""
    agent: str = ""
    model: str = ""
    text: str = ""
    attempt: int = 1
    active: bool = False
    finished: StageFinished | None = None
    msv: MSV | None = None


@dataclass
class Change:
    """The changes of one event.

    Attributes:
        panels: Panels to render again.
        text: Text to append, by its place.
    """

    panels: set[str] = field(default_factory=set)
    text: dict[str, str] = field(default_factory=dict)

    def add(self, other: "Change") -> None:
        """Add a later change."""
        self.panels |= other.panels
        for place, added in other.text.items():
            self.text[place] = self.text.get(place, "") + added


@dataclass
class Picture:
    """The picture of a run so far.

    Attributes:
        question: The question.
        strategy: The current strategy; empty until it is chosen.
        reached: Finished phases.
        at_work: The current phase; empty for none.
        error: The error that ended it, as a notice.
        run: The finished run.
    """

    question: str = ""
    strategy: str = ""
    run_id: str = ""
    routed: RouteResponse | None = None
    reached: set[str] = field(default_factory=set)
    at_work: str = "assess"
    assessed: list[AgentAssessed] = field(default_factory=list)
    roles: RolesAssigned | None = None
    stages: dict[str, StageView] = field(default_factory=dict)
    fallbacks: list[FellBack] = field(default_factory=list)
    solving: SamplesDrawn | None = None
    solved: SolversFinished | None = None
    critiques: list[Critique] = field(default_factory=list)
    arbiter: SamplesDrawn | None = None
    dispatched: TaskDispatched | None = None
    assessments: list[Assessment] = field(default_factory=list)
    mode: ModeChosen | None = None
    votes: list[Vote] = field(default_factory=list)
    cast: list[VoteCast] = field(default_factory=list)
    label: AnswerLabel | None = None
    answer: str = ""
    run: Run | None = None
    error: Notice | None = None
    stopped: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.run is not None or self.error is not None or self.stopped

    @property
    def phases(self) -> list[tuple[str, str]]:
        """The phases, each with its status: done, active, skipped, failed or waiting."""
        return [(phase, self._phase_status(phase)) for phase in PHASES.get(self.strategy, PHASES[""])]

    @property
    def chain_states(self) -> list[tuple[str, MSV | None]]:
        """The stages of the chain with the state after each; None where it is not measured."""
        return [(stage, self.stages[stage].msv if stage in self.stages else None) for stage in CHAIN]

    @property
    def solver_counts(self) -> dict[str, int]:
        """The frequencies of the solvers' answers so far."""
        if self.solved is not None:
            return dict(self.solved.counts)
        return dict(self.solving.counts) if self.solving else {}

    @property
    def arbiter_counts(self) -> dict[str, int]:
        """The frequencies of the arbiter's answers so far."""
        if self.run is not None and self.run.arbitration.arbiter:
            return dict(self.run.arbitration.arbiter)
        return dict(self.arbiter.counts) if self.arbiter else {}

    @property
    def answers(self) -> list[str]:
        """The answers of solvers and arbiter, the most frequent first."""
        total = Counter(self.solver_counts)
        total.update(self.arbiter_counts)
        return [answer for answer, _ in sorted(total.items(), key=lambda each: (-each[1], each[0]))]

    def _phase_status(self, phase: str) -> str:
        if phase == "assess" and self.routed is not None and not self.routed.assessor:
            return "skipped"
        if phase in self.reached:
            return "done"
        if phase == self.at_work and not self.is_over:
            return "active"
        if self.error is not None or self.stopped:
            return "failed" if phase == self.at_work else "waiting"
        return "skipped" if self.run is not None else "waiting"

    def step(self, done: Iterable[str], following: str) -> None:
        """Record finished phases, and the one that follows."""
        self.reached.update(done)
        self.at_work = following
