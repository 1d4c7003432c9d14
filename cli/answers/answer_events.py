"""Prints the events of a run as they arrive: the answer alone, or everything that explains it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from google.protobuf.message import Message
from metacog.arbiter.v1.arbiter_pb2 import SamplesDrawn, SamplingPhase
from metacog.arbiter.v1.vote_pb2 import VoteCast
from metacog.assigner.v1.assigner_pb2 import AgentAssessed, RolesAssigned
from metacog.common.v1.answer_pb2 import OUTCOME_ABSTAINED
from metacog.common.v1.confidence_pb2 import ConfidenceState
from metacog.common.v1.stage_pb2 import STAGE_NOTE, Role, Stage, StageFinished, StageStarted, StageToken
from metacog.delegation.v1.tasks_pb2 import Assessment, ModeChosen
from metacog.router.v1.router_pb2 import AnswerResponse, AnswerToken, FellBack, RouteResponse, Run

from chassis.serving.wire import optional, word
from cli.answers import drawing, drawing_answers
from cli.answers.deliberations import heading, show_account, show_citations, show_escalation, show_measured_state
from cli.terminal.client import Reply, Unreachable
from cli.terminal.output import HOT, ProgressLine, snippet, stderr, stdout, text, write
from kernel.votes.states import marked_confidence, state_in_short

STEPS = {
    "run_started": "assessing the question",
    "routed": "waiting for the first token",
    "task_agent_assessed": "agent assessed",
}

Events = Iterable[Reply[AnswerResponse]]


class AnswerPrinter:
    """A printer of the answer on standard output, and of one line about the run on standard error.

    Args:
        progress: Line that shows the current step.
    """

    def __init__(self, progress: ProgressLine) -> None:
        self._progress = progress
        self._printed = ""

    def follow(self, events: Events) -> None:
        """Print the events of a run until its end."""
        for event in events:
            match event.message.WhichOneof("event"):
                case "answer_token":
                    self._token(event.message.answer_token.text)
                case "fell_back":
                    self._fell_back(event.message.fell_back)
                case "run_finished":
                    self._finish(event.message.run_finished.run)
                    return
                case _ if not self._printed:
                    self._progress.show(step_after(event.message))
        raise incomplete_stream()

    def _token(self, token: str) -> None:
        token = token if self._printed else token.lstrip()
        if token:
            self._progress.clear()
            self._printed += token
            write(token)

    def _fell_back(self, fallback: FellBack) -> None:
        self._progress.clear()
        if self._printed:
            write("\n")
        self._printed = ""
        stderr.print(text(fallback_message(fallback), HOT), soft_wrap=True)

    def _finish(self, run: Run) -> None:
        self._progress.clear()
        answer = run.answer.strip()
        if answer and answer != self._printed.strip():
            # Nothing was streamed, or the final answer differs from the streamed text.
            write(("\n" if self._printed else "") + answer)
        if answer or self._printed:
            write("\n")
        else:
            stderr.print(text("no answer is given"), soft_wrap=True)
        stderr.print(summary(run), style="dim", soft_wrap=True)


class ExplanationPrinter:
    """A printer of the whole run on standard output: decision, matrix, stages, evolution, note and cost.

    Args:
        progress: Line that shows the current step.
    """

    def __init__(self, progress: ProgressLine) -> None:
        self._progress = progress
        self._assessed: list[str] = []
        self._in_stage = False
        self._streamed = False
        self._has_printed_note = False
        self._handlers: Mapping[str, Callable[[Any], None]] = {
            "routed": self._routed,
            "agent_assessed": self._agent_assessed,
            "task_agent_assessed": self._agent_assessed,
            "roles_assigned": self._roles_assigned,
            "stage_started": self._stage_started,
            "stage_token": self._stage_token,
            "stage_finished": self._stage_finished,
            "answer_token": self._answer_token,
            "fell_back": self._fell_back,
        }

    def follow(self, events: Events) -> None:
        """Print the events of a run until its end."""
        for event in events:
            name = event.message.WhichOneof("event") or ""
            if name == "run_finished":
                self._finish(event.message.run_finished.run)
                return
            if name in self._handlers:
                self._handlers[name](getattr(event.message, name))
            else:
                self._progress.show(step_after(event.message))
        raise incomplete_stream()

    def _routed(self, route: RouteResponse) -> None:
        self._progress.clear()
        heading("decision")
        stdout.print(drawing.decision(route))
        self._progress.show(STEPS["routed"])

    def _agent_assessed(self, assessed: AgentAssessed | Assessment) -> None:
        self._assessed.append(assessed.agent)
        self._progress.show(f"agents assess themselves: {', '.join(self._assessed)}")

    def _roles_assigned(self, roles: RolesAssigned) -> None:
        self._progress.clear()
        heading(f"roles ({roles.reason})" if roles.reason else "roles")
        stdout.print(drawing.matrix(roles.optimum, roles.assignment))
        self._progress.show("waiting for the first stage")

    def _stage_started(self, stage: StageStarted) -> None:
        self._progress.clear()
        again = f", attempt {stage.attempt}" if stage.attempt > 1 else ""
        heading(f"{word(Stage, stage.stage)}: {word(Role, stage.role)} ".lower() + f"{stage.agent}{again}")
        self._in_stage = True
        self._has_printed_note = stage.stage == STAGE_NOTE

    def _stage_token(self, token: StageToken) -> None:
        self._progress.clear()
        write(token.text)

    def _stage_finished(self, stage: StageFinished) -> None:
        failed = "" if stage.succeeded else f"failed: {stage.failure}"
        cut = "it ended at its token limit" if stage.truncated else ""
        shortened = f"shortened for it: {', '.join(stage.shortened_inputs)}" if stage.shortened_inputs else ""
        write("\n")
        if remark := "; ".join(part for part in (failed, cut, shortened) if part):
            stdout.print(text(remark, HOT))
        self._progress.show("waiting for the next stage")

    def _answer_token(self, token: AnswerToken) -> None:
        if self._in_stage:
            return  # the synthesis is the answer, and is printed already
        if not self._streamed:
            self._progress.clear()
            heading("answer")
        self._streamed = True
        write(token.text)

    def _fell_back(self, fallback: FellBack) -> None:
        self._progress.clear()
        self._in_stage = self._streamed = False
        stdout.print(text(fallback_message(fallback), HOT))

    def _finish(self, run: Run) -> None:
        self._progress.clear()
        if self._streamed:
            write("\n")
        elif not self._in_stage:
            heading("answer")
            write(f"{run.answer}\n")
        show_citations(run)
        show_account(run, has_printed_note=self._has_printed_note)
        show_escalation(run)
        show_measured_state(run)
        heading("run")
        stdout.print(drawing.ending(run))
        stderr.print(f"was it right? metacog feedback {run.run_id} --correct (or --wrong)", style="dim", soft_wrap=True)


def finished_run(events: Events, progress: ProgressLine) -> object:
    """Return the run of the last event, as REST sent it."""
    for event in events:
        if event.message.HasField("run_finished"):
            return event.part("run")
        progress.show(step_after(event.message))
    raise incomplete_stream()


def incomplete_stream() -> Unreachable:
    """Return the error for a stream that ended too early."""
    return Unreachable("the stream ended before the answer was complete; the log of the service contains the reason")


def step_after(event: Message) -> str:
    """Describe the step that follows an event, which is the message of a stream with one `oneof`."""
    name = event.WhichOneof("event") or ""
    match getattr(event, name):
        case StageStarted() as stage:
            return f"{word(Stage, stage.stage)} by {word(Role, stage.role)} ".lower() + stage.agent
        case SamplesDrawn() as samples:
            return f"{word(SamplingPhase, samples.phase).lower()}: {samples.drawn} of {samples.planned} samples"
        case ModeChosen() as mode:
            return drawing_answers.chosen_mode(mode)
        case VoteCast() as vote:
            return f"vote {vote.index + 1}: {snippet(drawing_answers.written_vote(vote) or 'invalid', 40)}"
    return STEPS.get(name, name.replace("_", " "))


def fallback_message(fallback: FellBack) -> str:
    """Describe a strategy that failed, and its fallback."""
    reason = f"{fallback.reason}: {fallback.message}"
    return f"{fallback.from_strategy} failed ({reason}); the fallback is {fallback.to_strategy}"


def summary(run: Run) -> str:
    """Summarize a run in one line."""
    confidence, state = optional(run, "confidence"), word(ConfidenceState, run.confidence_state) or None
    shown = marked_confidence(confidence, state)
    short = state_in_short(state, run.confidence_labels)
    parts = [
        drawing.system_in_words(run.route) if run.HasField("route") else "",
        run.strategy,
        f"confidence {shown}" if confidence is None else f"confidence {shown} ({run.confidence_source}, {short})",
        f"{run.usage.completion_tokens} tokens",
        f"{run.duration_ms / 1000:.1f} s",
        f"run {run.run_id}",
    ]
    flags = ["abstained"] if run.outcome == OUTCOME_ABSTAINED else []
    flags += [f"degraded: {'; '.join(run.degraded_reasons)}"] if run.degraded else []
    flags += ["a limit of the envelope was reached"] if run.budget_exhausted else []
    return " · ".join(part for part in [*parts, *flags] if part)
