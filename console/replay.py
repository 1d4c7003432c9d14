"""Reconstructs the events of a recorded run, with their durations."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from google.protobuf.message import Message
from metacog.arbiter.v1.arbiter_pb2 import (
    SAMPLING_PHASE_ARBITRATE,
    SAMPLING_PHASE_SOLVE,
    ArbitrationFinished,
    SamplesDrawn,
    SolverResult,
    SolversFinished,
)
from metacog.assigner.v1.assigner_pb2 import DeliberationFinished
from metacog.common.v1.stage_pb2 import (
    ROLE_GENERALIST,
    STAGE_NOTE,
    STAGE_SYNTHESIS,
    Stage,
    StageFinished,
    StageStarted,
    StageToken,
)
from metacog.delegation.v1.tasks_pb2 import TaskDispatched
from metacog.router.v1.router_pb2 import AnswerToken, Run, RunFinished, RunStarted

from chassis.serving.wire import optional
from console.run_view import AUTHORS, NOTE
from kernel.values import value

_PIECES = re.compile(r"\s*\S+\s*")


@value
class Timed:
    """An event with the time before it [ms]."""

    name: str
    data: Message
    after_ms: float = 0.0


def events(run: Run) -> list[Timed]:
    """Return the events of `run` in their order, without those that a record does not contain.

    A record has the durations of the decision, the stages and the run, not the times of the tokens: the tokens are
    spread evenly over their stage, and the remaining time is before the first stage.
    """
    timed = [Timed(name="run_started", data=RunStarted(run_id=run.run_id))]
    if run.HasField("route"):
        timed.append(Timed(name="routed", data=run.route, after_ms=run.route.duration_ms))
    timed += [Timed(name="fell_back", data=each) for each in run.fallbacks]
    timed += _ACCOUNTS.get(run.strategy, _system1)(run)
    spent = sum(each.after_ms for each in timed)
    return [*timed, Timed(name="run_finished", data=RunFinished(run=run), after_ms=max(0.0, run.duration_ms - spent))]


def _system1(run: Run) -> list[Timed]:
    """Return the tokens of one answer, spread over the time after its first token; at once where that is unknown."""
    first_ms = run.first_token_ms if run.HasField("first_token_ms") else run.duration_ms
    begins_ms = first_ms - run.route.duration_ms if run.HasField("first_token_ms") else 0.0
    return _answer_tokens(run.answer, max(0.0, run.duration_ms - first_ms), max(0.0, begins_ms))


def _dialectic(run: Run) -> list[Timed]:
    account = run.deliberation
    before = max(0.0, account.duration_ms - sum(each.duration_ms for each in account.stages))
    timed = [
        Timed(name="agent_assessed", data=each, after_ms=before if place == 0 else 0.0)
        for place, each in enumerate(account.assessments)
    ]
    if account.HasField("roles"):
        timed.append(Timed(name="roles_assigned", data=account.roles))
    for stage in account.stages:
        timed += _stage(stage)
    timed += [Timed(name="stage_measured", data=each) for each in account.measurements]
    return [*timed, *_note(account)]


def _note(account: DeliberationFinished) -> Iterator[Timed]:
    """Return the events of the note; a record may have its text without its stage."""
    if account.HasField("note_stage"):
        yield from _stage(account.note_stage)
    elif account.note:
        agent = account.roles.assignment.get(AUTHORS[NOTE], "")
        head = StageStarted(stage=STAGE_NOTE, role=ROLE_GENERALIST, agent=agent, attempt=1)
        yield Timed(name="stage_started", data=head)
        yield from _stage_tokens(STAGE_NOTE, account.note, 0.0)


def _stage(stage: StageFinished) -> Iterator[Timed]:
    head = StageStarted(
        stage=stage.stage, role=stage.role, agent=stage.agent, model=stage.model, attempt=stage.attempts
    )
    yield Timed(name="stage_started", data=head)
    yield from _stage_tokens(stage.stage, stage.text, stage.duration_ms)
    if stage.stage == STAGE_SYNTHESIS:
        yield Timed(name="answer_token", data=AnswerToken(text=stage.text))
    yield Timed(name="stage_finished", data=stage)


def _arbiter(run: Run) -> list[Timed]:
    if not run.HasField("arbitration"):
        return []
    account, measures = run.arbitration, run.arbitration.measures
    finished = SolversFinished(
        counts=account.solver,
        invalid=account.solver_invalid,
        entropy=optional(measures, "entropy_solver"),
        solver_results=account.solver_results,
        settled=not account.critiques and not account.arbiter,
    )
    timed = [*_drawn(account.solver_results), Timed(name="solvers_finished", data=finished)]
    timed += [Timed(name="critique_finished", data=each, after_ms=each.duration_ms) for each in account.critiques]
    return [*timed, _arbitrated(account)] if account.arbiter else timed


def _drawn(solvers: Sequence[SolverResult]) -> list[Timed]:
    """Return the events of the solvers' samples, with cumulative counts; a record has no intermediate entropies."""
    counts: Counter[str] = Counter()
    invalid, timed = 0, []
    planned = sum(sum(each.counts.values()) + each.invalid for each in solvers)
    for each in solvers:
        counts.update(each.counts)
        invalid += each.invalid
        data = SamplesDrawn(
            phase=SAMPLING_PHASE_SOLVE,
            solver=each.solver,
            drawn=sum(counts.values()) + invalid,
            planned=planned,
            counts=counts,
            invalid=invalid,
        )
        timed.append(Timed(name="samples_drawn", data=data))
    return timed


def _arbitrated(account: ArbitrationFinished) -> Timed:
    drawn, measures = sum(account.arbiter.values()) + account.arbiter_invalid, account.measures
    data = SamplesDrawn(
        phase=SAMPLING_PHASE_ARBITRATE,
        drawn=drawn,
        planned=drawn,
        counts=account.arbiter,
        invalid=account.arbiter_invalid,
        entropy=optional(measures, "entropy_arbiter"),
    )
    return Timed(name="samples_drawn", data=data)


def _delegation(run: Run) -> list[Timed]:
    account, timed = run.task, []
    has_decision = account.HasField("decision")
    if has_decision:
        data = TaskDispatched(dimensions=account.dimensions, first_agent=account.decision.first_agent)
        timed.append(Timed(name="task_dispatched", data=data))
    timed += [Timed(name="task_agent_assessed", data=each, after_ms=each.duration_ms) for each in account.assessments]
    if has_decision:
        timed.append(Timed(name="mode_chosen", data=account.decision))
    timed += [Timed(name="agent_answered", data=each, after_ms=each.duration_ms) for each in account.votes]
    if account.HasField("label"):
        timed.append(Timed(name="answer_judged", data=account.label))
    return timed


_ACCOUNTS: Mapping[str, Callable[[Run], list[Timed]]] = {
    "dialectic": _dialectic,
    "arbiter": _arbiter,
    "delegation": _delegation,
}


def _stage_tokens(stage: Stage.ValueType, text: str, takes_ms: float) -> list[Timed]:
    """Return the tokens of a stage, spread over its time [ms]."""
    pieces = _pieces(text)
    return [
        Timed(name="stage_token", data=StageToken(stage=stage, text=piece), after_ms=takes_ms / len(pieces))
        for piece in pieces
    ]


def _answer_tokens(text: str, takes_ms: float, begins_ms: float) -> list[Timed]:
    """Return the tokens of an answer, spread over its time [ms], which begins after another time [ms]."""
    pieces = _pieces(text)
    return [
        Timed(
            name="answer_token",
            data=AnswerToken(text=piece),
            after_ms=takes_ms / len(pieces) + (begins_ms if place == 0 else 0.0),
        )
        for place, piece in enumerate(pieces)
    ]


def _pieces(text: str) -> list[str]:
    """Return the words of a text, with the blanks around them."""
    return _PIECES.findall(text)
