"""Prints the events of a run as they arrive: the answer alone, or everything that explains it."""

from collections.abc import Callable
from functools import partial

from cli.answers import drawing, drawing_answers
from cli.answers.deliberations import heading, show_deliberation, show_escalation, show_measured_state
from cli.terminal.client import Body, Events, Unreachable
from cli.terminal.output import HOT, ProgressLine, snippet, stderr, stdout, text, write
from kernel.votes.states import marked_confidence, state_in_short

STEPS = {"run_started": "assessing the question", "routed": "waiting for the first token"}


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
        for name, content in events:
            if name == "answer_token":
                self._token(content["text"])
            elif name == "fell_back":
                self._fell_back(content)
            elif name == "run_finished":
                self._finish(content["run"])
                return
            elif not self._printed:
                self._progress.show(step_after(name, content))
        raise incomplete_stream()

    def _token(self, token: str) -> None:
        token = token if self._printed else token.lstrip()
        if token:
            self._progress.clear()
            self._printed += token
            write(token)

    def _fell_back(self, content: Body) -> None:
        self._progress.clear()
        if self._printed:
            write("\n")
        self._printed = ""
        stderr.print(text(fallback_message(content), HOT), soft_wrap=True)

    def _finish(self, run: Body) -> None:
        self._progress.clear()
        answer = run["answer"].strip()
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
        self._handlers: dict[str, Callable[[Body], None]] = {
            "routed": self._routed,
            "agent_assessed": self._agent_assessed,
            "roles_assigned": self._roles_assigned,
            "stage_started": self._stage_started,
            "stage_token": self._stage_token,
            "stage_finished": self._stage_finished,
            "answer_token": self._answer_token,
            "fell_back": self._fell_back,
        }

    def follow(self, events: Events) -> None:
        """Print the events of a run until its end."""
        for name, content in events:
            if name == "run_finished":
                self._finish(content["run"])
                return
            self._handlers.get(name, partial(self._show_step, name))(content)
        raise incomplete_stream()

    def _show_step(self, name: str, content: Body) -> None:
        self._progress.show(step_after(name, content))

    def _routed(self, content: Body) -> None:
        self._progress.clear()
        heading("decision")
        stdout.print(drawing.decision(content))
        self._progress.show(step_after("routed", content))

    def _agent_assessed(self, content: Body) -> None:
        self._assessed.append(content["agent"])
        self._progress.show(f"agents assess themselves: {', '.join(self._assessed)}")

    def _roles_assigned(self, content: Body) -> None:
        self._progress.clear()
        heading(f"roles ({content['reason']})" if content["reason"] else "roles")
        stdout.print(drawing.matrix(content["optimum"], content["assignment"]))
        self._progress.show("waiting for the first stage")

    def _stage_started(self, content: Body) -> None:
        self._progress.clear()
        again = f", attempt {content['attempt']}" if content["attempt"] > 1 else ""
        heading(f"{content['stage'].lower()}: {content['role'].lower()} {content['agent']}{again}")
        self._in_stage = True
        self._has_printed_note = content["stage"] == "NOTE"

    def _stage_token(self, content: Body) -> None:
        self._progress.clear()
        write(content["text"])

    def _stage_finished(self, content: Body) -> None:
        failed = "" if content["succeeded"] else f"failed: {content['failure']}"
        cut = "it ended at its token limit" if content["truncated"] else ""
        shortened = f"shortened for it: {', '.join(content['shortened_inputs'])}" if content["shortened_inputs"] else ""
        write("\n")
        if remark := "; ".join(part for part in (failed, cut, shortened) if part):
            stdout.print(text(remark, HOT))
        self._progress.show("waiting for the next stage")

    def _answer_token(self, content: Body) -> None:
        if self._in_stage:
            return  # the synthesis is the answer, and is printed already
        if not self._streamed:
            self._progress.clear()
            heading("answer")
        self._streamed = True
        write(content["text"])

    def _fell_back(self, content: Body) -> None:
        self._progress.clear()
        self._in_stage = self._streamed = False
        stdout.print(text(fallback_message(content), HOT))

    def _finish(self, run: Body) -> None:
        self._progress.clear()
        if self._streamed:
            write("\n")
        elif not self._in_stage:
            heading("answer")
            write(f"{run['answer']}\n")
        show_deliberation(run["deliberation"] or {}, has_printed_note=self._has_printed_note)
        show_escalation(run)
        show_measured_state(run)
        heading("run")
        stdout.print(drawing.ending(run))
        stderr.print(
            f"was it right? metacog feedback {run['run_id']} --correct (or --wrong)", style="dim", soft_wrap=True
        )


def finished_run(events: Events, progress: ProgressLine) -> Body:
    """Return the run of the last event."""
    for name, content in events:
        if name == "run_finished":
            run: Body = content["run"]
            return run
        progress.show(step_after(name, content))
    raise incomplete_stream()


def incomplete_stream() -> Unreachable:
    """Return the error for a stream that ended too early."""
    return Unreachable("the stream ended before the answer was complete; the log of the service contains the reason")


def step_after(name: str, content: Body) -> str:
    """Describe the step that follows an event."""
    if name == "stage_started":
        return f"{content['stage'].lower()} by {content['role'].lower()} {content['agent']}"
    if name == "samples_drawn":
        return f"{content['phase'].lower()}: {content['drawn']} of {content['planned']} samples"
    if name == "mode_chosen":
        return drawing_answers.chosen_mode(content)
    if name == "vote_cast":
        return f"vote {content['index'] + 1}: {snippet(content.get('written') or content['answer'] or 'invalid', 40)}"
    return STEPS.get(name, name.replace("_", " "))


def fallback_message(content: Body) -> str:
    """Describe a strategy that failed, and its fallback."""
    reason = f"{content['reason']}: {content['message']}"
    return f"{content['from_strategy']} failed ({reason}); the fallback is {content['to_strategy']}"


def summary(run: Body) -> str:
    """Summarize a run in one line."""
    route = run["route"] or {}
    shown = marked_confidence(run["confidence"], run.get("confidence_state"))
    state = state_in_short(run.get("confidence_state"), run.get("confidence_labels", 0))
    confidence = f"{shown} ({run['confidence_source']}, {state})" if run["confidence"] is not None else shown
    parts = [
        (route.get("system") or "").replace("_", " "),
        run["strategy"],
        f"confidence {confidence}",
        f"{run['usage']['completion_tokens']} tokens",
        f"{run['duration_ms'] / 1000:.1f} s",
        f"run {run['run_id']}",
    ]
    flags = ["abstained"] if run["outcome"] == "ABSTAINED" else []
    flags += [f"degraded: {'; '.join(run['degraded_reasons'])}"] if run["degraded"] else []
    flags += ["a limit of the envelope was reached"] if run["budget_exhausted"] else []
    return " · ".join(part for part in [*parts, *flags] if part)
