"""Applies the events of a run to its picture."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from metacog.arbiter.v1.arbiter_pb2 import (
    SAMPLING_PHASE_ARBITRATE,
    ArbitrationFinished,
    Critique,
    SamplesDrawn,
    SolversFinished,
)
from metacog.arbiter.v1.vote_pb2 import VoteCast
from metacog.assigner.v1.assigner_pb2 import AgentAssessed, RolesAssigned
from metacog.common.v1.stage_pb2 import Role, Stage, StageFinished, StageMeasured, StageStarted, StageToken
from metacog.delegation.v1.tasks_pb2 import AnswerLabel, Assessment, ModeChosen, TaskDispatched, Vote
from metacog.router.v1.router_pb2 import AnswerToken, FellBack, RouteResponse, Run, RunFinished, RunStarted

from chassis.serving.wire import word
from console.errors import notice
from console.live_runs import Event
from console.run_view import (
    ANSWER,
    ANSWER_TEXT,
    ARBITRATION,
    ASSIGNMENT,
    AUTHORS,
    CHAIN,
    DELEGATION,
    EVOLUTION,
    NOTE,
    PANELS,
    PHASES,
    PROGRESS,
    STAGES,
    VOTES,
    Change,
    Picture,
    StageView,
    stage_panel,
    stage_text,
)
from kernel.errors import MetacogError
from kernel.policy import VOTING


def apply(picture: Picture, name: str, data: object) -> Change:
    """Apply one event to `picture`, and return the changes; an unknown event has none."""
    handle = _HANDLERS.get(name)
    return handle(picture, data) if handle else Change()


def pictured(events: Iterable[Event], question: str = "") -> Picture:
    """Return the picture after the events."""
    picture = Picture(question=question)
    for name, data in events:
        apply(picture, name, data)
    return picture


def _started(picture: Picture, data: RunStarted) -> Change:
    picture.run_id = data.run_id
    return Change({PROGRESS})


def _routed(picture: Picture, data: RouteResponse) -> Change:
    picture.routed, picture.strategy = data, data.strategy
    following = PHASES.get(picture.strategy, PHASES[""])[2]
    picture.step(("assess", "route"), following)
    if picture.strategy == "dialectic":
        picture.stages = {stage: StageView(stage, AUTHORS[stage]) for stage in CHAIN}
    return Change(set(PANELS))


def _agent_assessed(picture: Picture, data: AgentAssessed) -> Change:
    picture.assessed.append(data)
    return Change({ASSIGNMENT})


def _task_agent_assessed(picture: Picture, data: Assessment) -> Change:
    picture.assessments = [each for each in picture.assessments if each.agent != data.agent] + [data]
    picture.step(("classify",), "self-assess")
    return Change({PROGRESS, DELEGATION})


def _roles_assigned(picture: Picture, data: RolesAssigned) -> Change:
    picture.roles = data
    if "assign" not in picture.reached:
        picture.step(("assign",), "thesis")
    return Change({PROGRESS, ASSIGNMENT})


def _stage_started(picture: Picture, data: StageStarted) -> Change:
    stage = _stage(data)
    picture.stages[stage] = StageView(stage, _role(data), data.agent, data.model, attempt=data.attempt, active=True)
    picture.at_work = stage.lower()
    panels = {PROGRESS, STAGES if stage == NOTE else stage_panel(stage)}
    if stage == CHAIN[-1]:
        picture.answer = ""
        panels.add(ANSWER)
    return Change(panels)


def _stage_token(picture: Picture, data: StageToken) -> Change:
    stage = _stage(data)
    view = picture.stages.setdefault(stage, StageView(stage, AUTHORS.get(stage, "")))
    view.text += data.text
    return Change(text={stage_text(stage): data.text})


def _stage_finished(picture: Picture, data: StageFinished) -> Change:
    stage = _stage(data)
    earlier = picture.stages.get(stage)
    picture.stages[stage] = StageView(
        stage,
        _role(data),
        data.agent,
        data.model,
        text=data.text,
        attempt=data.attempts,
        finished=data,
        msv=earlier.msv if earlier else None,
    )
    if data.succeeded:
        phase = stage.lower()
        order = PHASES["dialectic"]
        picture.step((phase,), order[min(order.index(phase) + 1, len(order) - 1)])
    return Change({PROGRESS, STAGES if stage == NOTE else stage_panel(stage)})


def _stage_measured(picture: Picture, data: StageMeasured) -> Change:
    stage = _stage(data)
    if stage in picture.stages:
        picture.stages[stage].msv = data.msv if data.HasField("msv") else None
    return Change({EVOLUTION, stage_panel(stage)})


def _answer_token(picture: Picture, data: AnswerToken) -> Change:
    picture.answer += data.text
    return Change(text={ANSWER_TEXT: data.text})


def _fell_back(picture: Picture, data: FellBack) -> Change:
    picture.fallbacks.append(data)
    picture.strategy, picture.answer = data.to_strategy, ""
    picture.at_work = PHASES.get(picture.strategy, PHASES[""])[2]
    if picture.strategy == "dialectic":
        picture.stages = {stage: StageView(stage, AUTHORS[stage]) for stage in CHAIN}
    return Change(set(PANELS))


def _samples_drawn(picture: Picture, data: SamplesDrawn) -> Change:
    if data.phase == SAMPLING_PHASE_ARBITRATE:
        picture.arbiter = data
        picture.step(("solve", "critique"), "arbitrate")
    else:
        picture.solving = data
        picture.at_work = "solve"
    return Change({PROGRESS, ARBITRATION})


def _solvers_finished(picture: Picture, data: SolversFinished) -> Change:
    picture.solved = data
    picture.step(("solve",), "measure" if data.settled else "critique")
    return Change({PROGRESS, ARBITRATION})


def _critique_finished(picture: Picture, data: Critique) -> Change:
    picture.critiques.append(data)
    return Change({PROGRESS, ARBITRATION})


def _task_dispatched(picture: Picture, data: TaskDispatched) -> Change:
    picture.dispatched = data
    picture.step(("classify",), "self-assess")
    return Change({PROGRESS, DELEGATION})


def _mode_chosen(picture: Picture, data: ModeChosen) -> Change:
    again, picture.answer = bool(picture.answer), ""  # the answer of an earlier agent is dropped
    picture.mode = data
    picture.step(("classify", "self-assess", "decide"), "answer")
    return Change(set(PANELS) if again else {PROGRESS, DELEGATION})


def _agent_answered(picture: Picture, data: Vote) -> Change:
    picture.votes.append(data)
    return Change({DELEGATION})


def _vote_cast(picture: Picture, data: VoteCast) -> Change:
    picture.cast.append(data)
    picture.step(("draft",), "vote")
    return Change({PROGRESS, VOTES})


def _answer_judged(picture: Picture, data: AnswerLabel) -> Change:
    picture.label = data
    return Change({DELEGATION})


def _run_finished(picture: Picture, data: RunFinished) -> Change:
    run = data.run
    picture.run, picture.answer, picture.run_id = run, run.answer, run.run_id
    picture.strategy = run.strategy or picture.strategy
    if picture.strategy == "arbiter":
        picture.reached.update(_arbitration_phases(run.arbitration))
    elif picture.strategy in VOTING:
        _vote_finished(picture, run)
    elif picture.strategy in ("system1", "delegation"):
        picture.reached.add("answer")
    if run.deliberation.note:
        picture.reached.add("note")
    picture.at_work = ""
    for view in picture.stages.values():
        view.active = False
    return Change(set(PANELS))


def _vote_finished(picture: Picture, run: Run) -> None:
    if run.HasField("vote"):
        picture.cast = list(run.vote.votes)
        picture.reached.update(("draft", "vote"))
    if run.escalation.answered:
        picture.reached.add("escalate")


def _failed(picture: Picture, error: MetacogError) -> Change:
    picture.error = notice(error)
    picture.run_id = error.metadata.get("run_id", picture.run_id)
    return Change({PROGRESS, ANSWER})


def _stopped(picture: Picture, _nothing: None) -> Change:
    picture.stopped = True
    return Change({PROGRESS, ANSWER})


def _arbitration_phases(account: ArbitrationFinished) -> set[str]:
    done = {"solve"} if account.solver else set()
    if account.critiques:
        done.add("critique")
    if account.arbiter:
        done.add("arbitrate")
    return done | ({"measure"} if account.HasField("measures") else set())


def _stage(data: StageStarted | StageToken | StageFinished | StageMeasured) -> str:
    return word(Stage, data.stage)


def _role(data: StageStarted | StageFinished) -> str:
    return word(Role, data.role)


_HANDLERS: Mapping[str, Callable[[Picture, Any], Change]] = {
    "run_started": _started,
    "routed": _routed,
    "agent_assessed": _agent_assessed,
    "task_agent_assessed": _task_agent_assessed,
    "roles_assigned": _roles_assigned,
    "stage_started": _stage_started,
    "stage_token": _stage_token,
    "stage_finished": _stage_finished,
    "stage_measured": _stage_measured,
    "answer_token": _answer_token,
    "fell_back": _fell_back,
    "samples_drawn": _samples_drawn,
    "solvers_finished": _solvers_finished,
    "critique_finished": _critique_finished,
    "task_dispatched": _task_dispatched,
    "mode_chosen": _mode_chosen,
    "agent_answered": _agent_answered,
    "answer_judged": _answer_judged,
    "vote_cast": _vote_cast,
    "run_finished": _run_finished,
    "failed": _failed,
    "stopped": _stopped,
}
