"""The events of a run, shown as they come: the answer alone, or everything that explains it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from cli.answers import drawing, drawing_answers
from cli.answers.strategy_accounts import heading, show_account
from cli.terminal.client import Body, Events, Unreachable
from cli.terminal.output import HOT, UNKNOWN, Phase, shown, told, write

WAITING = {"run_started": "assessing the query", "routed": "waiting for the first token"}


class Streamed:
    """The text of the answer on standard output, what it was on standard error.

    Args:
        phase: Where waiting is shown.
    """

    def __init__(self, phase: Phase) -> None:
        self._phase = phase
        self._said = ""

    def follow(self, events: Events) -> None:
        """Show a run to its end."""
        for name, content in events:
            if name == "answer_token":
                self._token(content["text"])
            elif name == "fell_back":
                self._fell_back(content)
            elif name == "run_finished":
                self._finish(content["run"])
                return
            elif not self._said:
                self._phase.say(waiting(name, content))
        raise broken()

    def _token(self, piece: str) -> None:
        piece = piece if self._said else piece.lstrip()
        if piece:
            self._phase.done()
            self._said += piece
            write(piece)

    def _fell_back(self, content: Body) -> None:
        self._phase.done()
        if self._said:
            write("\n")
        self._said = ""
        told.print(fallback(content), style=HOT, soft_wrap=True)

    def _finish(self, run: Body) -> None:
        self._phase.done()
        answer = run["answer"].strip()
        if answer and answer != self._said.strip():
            # Nothing was streamed, or what came is not what counts in the end.
            write(("\n" if self._said else "") + answer)
        write("\n")
        told.print(summary(run), style="dim", soft_wrap=True)


class Explained:
    """Decision, matrix, stages, evolution, note, cost: everything on standard output, as it happens.

    Args:
        phase: Where waiting is shown.
    """

    def __init__(self, phase: Phase) -> None:
        self._phase = phase
        self._assessed: list[str] = []
        self._in_stage = False
        self._streamed = False
        self._noted = False
        self._showing: dict[str, Callable[[Body], None]] = {
            "routed": self._routed,
            "agent_assessed": self._agent_assessed,
            "roles_assigned": self._roles_assigned,
            "stage_started": self._stage_started,
            "stage_token": self._piece,
            "stage_finished": self._stage_finished,
            "answer_token": self._answer_token,
            "fell_back": self._fell_back,
        }

    def follow(self, events: Events) -> None:
        """Show a run to its end."""
        for name, content in events:
            if name == "run_finished":
                self._finish(content["run"])
                return
            self._showing.get(name, partial(self._wait, name))(content)
        raise broken()

    def _wait(self, name: str, content: Body) -> None:
        self._phase.say(waiting(name, content))

    def _routed(self, content: Body) -> None:
        self._phase.done()
        heading("decision")
        shown.print(drawing.decision(content))
        self._phase.say(waiting("routed", content))

    def _agent_assessed(self, content: Body) -> None:
        self._assessed.append(content["agent"])
        self._phase.say(f"agents assess themselves: {', '.join(self._assessed)}")

    def _roles_assigned(self, content: Body) -> None:
        self._phase.done()
        heading(f"roles ({content['reason']})" if content["reason"] else "roles")
        shown.print(drawing.matrix(content["optimum"], content["assignment"]))
        self._phase.say("waiting for the first stage")

    def _stage_started(self, content: Body) -> None:
        self._phase.done()
        again = f", attempt {content['attempt']}" if content["attempt"] > 1 else ""
        heading(f"{content['stage'].lower()}: {content['role'].lower()} {content['agent']}{again}")
        self._in_stage = True
        self._noted = content["stage"] == "NOTE"

    def _piece(self, content: Body) -> None:
        self._phase.done()
        write(content["text"])

    def _stage_finished(self, content: Body) -> None:
        failed = "" if content["succeeded"] else f"failed: {content['failure']}"
        cut = "it ended at its token limit" if content["truncated"] else ""
        shortened = f"shortened for it: {', '.join(content['shortened_inputs'])}" if content["shortened_inputs"] else ""
        write("\n")
        if said := "; ".join(part for part in (failed, cut, shortened) if part):
            shown.print(said, style=HOT)
        self._phase.say("waiting for the next stage")

    def _answer_token(self, content: Body) -> None:
        if self._in_stage:
            return  # the synthesis is the answer, and has been shown as it came
        if not self._streamed:
            self._phase.done()
            heading("answer")
        self._streamed = True
        write(content["text"])

    def _fell_back(self, content: Body) -> None:
        self._phase.done()
        self._in_stage = self._streamed = False
        shown.print(fallback(content), style=HOT)

    def _finish(self, run: Body) -> None:
        self._phase.done()
        if self._streamed:
            write("\n")
        elif not self._in_stage:
            heading("answer")
            write(f"{run['answer']}\n")
        show_account(run["deliberation"] or {}, noted=self._noted)
        heading("run")
        shown.print(drawing.ending(run))
        told.print(
            f"was it right? metacog feedback {run['run_id']} --correct (or --wrong)", style="dim", soft_wrap=True
        )


def finished(events: Events, phase: Phase) -> Body:
    """The run that the events end with."""
    run: Body = last(events, phase, "run_finished")["run"]
    return run


def last(events: Events, phase: Phase, name_of_last: str) -> Any:  # noqa: ANN401 - JSON
    """Content of the event that a stream ends with."""
    for name, content in events:
        if name == name_of_last:
            return content
        phase.say(waiting(name, content))
    raise broken()


def broken() -> Unreachable:
    """A stream that ended too early."""
    return Unreachable("the stream ended before the answer was complete; the log of the service says why")


def waiting(name: str, content: Body) -> str:
    """What is being waited for after an event."""
    if name == "stage_started":
        return f"{content['stage'].lower()} by {content['role'].lower()} {content['agent']}"
    if name == "samples_drawn":
        return f"{content['phase'].lower()}: {content['drawn']} of {content['planned']} samples"
    if name == "mode_chosen":
        return drawing_answers.chosen_mode(content)
    return WAITING.get(name, name.replace("_", " "))


def fallback(content: Body) -> str:
    """A strategy that failed, and the one that stands in."""
    why = f"{content['reason']}: {content['message']}"
    return f"{content['from_strategy']} failed ({why}); {content['to_strategy']} stands in"


def summary(run: Body) -> str:
    """One line about a run."""
    route = run["route"] or {}
    belief = UNKNOWN if run["confidence"] is None else f"{run['confidence']:.2f} ({run['confidence_source']})"
    parts = [
        (route.get("system") or "").replace("_", " "),
        run["strategy"],
        f"confidence {belief}",
        f"{run['usage']['completion_tokens']} tokens",
        f"{run['duration_ms'] / 1000:.1f} s",
        f"run {run['run_id']}",
    ]
    flags = ["abstained"] if run["outcome"] == "ABSTAINED" else []
    flags += [f"degraded: {'; '.join(run['degraded_reasons'])}"] if run["degraded"] else []
    flags += ["a limit of the envelope was reached"] if run["budget_exhausted"] else []
    return " · ".join(part for part in [*parts, *flags] if part)
