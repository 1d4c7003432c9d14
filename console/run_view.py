"""What a run looks like so far, and what of it is to be drawn anew.

The same picture is drawn of a run that is under way, of one that is replayed, and of a recorded one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.errors import Notice

Data = Mapping[str, Any]

CHAIN = ("THESIS", "ANTITHESIS", "RESOLUTION", "SYNTHESIS")
NOTE = "NOTE"
AUTHORS = {
    "THESIS": "EXPERT",
    "ANTITHESIS": "CRITIC",
    "RESOLUTION": "EVALUATOR",
    "SYNTHESIS": "SYNTHESIZER",
    NOTE: "GENERALIST",
}
PHASES: Mapping[str, tuple[str, ...]] = {
    "": ("assess", "route", "answer"),
    "system1": ("assess", "route", "answer"),
    "dialectic": ("assess", "route", "assign", "thesis", "antithesis", "resolution", "synthesis", "watch"),
    "arbiter": ("assess", "route", "solve", "critique", "arbitrate", "measure"),
    "delegation": ("assess", "route", "classify", "self-assess", "decide", "answer"),
}

PROGRESS, DECISION, ASSIGNMENT, STAGES, EVOLUTION = "progress", "decision", "assignment", "stages", "evolution"
ARBITRATION, DELEGATION, ANSWER = "arbitration", "delegation", "answer"
# Panels that are always there; those of single stages and the evolution stand inside the stages.
PANELS = (PROGRESS, ANSWER, DECISION, ASSIGNMENT, STAGES, ARBITRATION, DELEGATION)
ANSWER_TEXT = "answer-text"


def stage_panel(stage: str) -> str:
    """Name of the panel of one stage."""
    return f"stage-{stage.lower()}"


def stage_text(stage: str) -> str:
    """Name of the place where the text of one stage grows."""
    return f"text-{stage.lower()}"


@dataclass
class StageView:
    """One stage: who speaks, and what has been said so far."""

    stage: str
    role: str = ""
    agent: str = ""
    model: str = ""
    text: str = ""
    attempt: int = 1
    active: bool = False
    finished: Data | None = None
    msv: Data | None = None


@dataclass
class Sampling:
    """Samples drawn so far by all solvers, or by the arbiter."""

    drawn: int = 0
    planned: int = 0
    invalid: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    entropy: float | None = None


@dataclass
class Change:
    """What one event changes.

    Attributes:
        panels: Panels to be drawn anew.
        text: Text to be added, by the place where it grows.
    """

    panels: set[str] = field(default_factory=set)
    text: dict[str, str] = field(default_factory=dict)

    def add(self, other: "Change") -> None:
        """Take in a later change."""
        self.panels |= other.panels
        for place, said in other.text.items():
            self.text[place] = self.text.get(place, "") + said


@dataclass
class Picture:
    """A run so far.

    Attributes:
        question: What was asked.
        strategy: The strategy at work; empty until it is chosen.
        reached: Phases that are over.
        at_work: The phase that is under way; empty for none.
        error: The refusal that ended it, as a notice.
        run: The finished run.
    """

    question: str = ""
    strategy: str = ""
    run_id: str = ""
    routed: Data | None = None
    reached: set[str] = field(default_factory=set)
    at_work: str = "assess"
    assessed: list[Data] = field(default_factory=list)
    roles: Data | None = None
    stages: dict[str, StageView] = field(default_factory=dict)
    fallbacks: list[Data] = field(default_factory=list)
    solving: Sampling | None = None
    solved: Data | None = None
    critiques: list[Data] = field(default_factory=list)
    arbiter: Sampling | None = None
    dispatched: Data | None = None
    assessments: list[Data] = field(default_factory=list)
    mode: Data | None = None
    votes: list[Data] = field(default_factory=list)
    label: Data | None = None
    answer: str = ""
    run: Data | None = None
    error: Notice | None = None
    stopped: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.run is not None or self.error is not None or self.stopped

    @property
    def account(self) -> Data:
        """The strategy's own account of the finished run; empty while there is none."""
        return (self.run or {}).get("deliberation") or {}

    @property
    def phases(self) -> list[tuple[str, str]]:
        """Phases with how each stands: done, active, skipped, failed or waiting."""
        return [(phase, self._standing(phase)) for phase in PHASES.get(self.strategy, PHASES[""])]

    @property
    def chain_states(self) -> list[tuple[str, Data | None]]:
        """The stages of the chain with the state measured after each; None where none was, or not yet."""
        return [(stage, self.stages[stage].msv if stage in self.stages else None) for stage in CHAIN]

    @property
    def solver_counts(self) -> dict[str, int]:
        """How often the solvers gave each answer, so far or in all."""
        if self.solved is not None:
            return dict(self.solved["counts"])
        return dict(self.solving.counts) if self.solving else {}

    @property
    def answers(self) -> list[str]:
        """Answers of solvers and arbiter, the most frequent first."""
        total = Counter(self.solver_counts)
        total.update(self.account.get("arbiter") or (self.arbiter.counts if self.arbiter else {}))
        return [answer for answer, _ in sorted(total.items(), key=lambda each: (-each[1], each[0]))]

    def _standing(self, phase: str) -> str:
        if phase == "assess" and self.routed is not None and not self.routed.get("assessor"):
            return "skipped"
        if phase in self.reached:
            return "done"
        if phase == self.at_work and not self.is_over:
            return "active"
        if self.error is not None or self.stopped:
            return "failed" if phase == self.at_work else "waiting"
        return "skipped" if self.run is not None else "waiting"

    def step(self, done: Iterable[str], following: str) -> None:
        """Take note of phases that are over, and of the one that follows."""
        self.reached.update(done)
        self.at_work = following
