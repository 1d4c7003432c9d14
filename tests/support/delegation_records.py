"""Delegation as it is recorded for its evaluation: tasks with every agent's rating and answer, and records of them."""

from collections.abc import Mapping

from evals.delegation.files import COMMAND
from evals.delegation.tasks import AgentAnswer, RatingCost, Sampled, Task
from evals.harness.rows import RecordedItem
from evals.records import Record
from evals.scorers.answers import Known
from kernel.answers import AnswerType
from tests.support.evaluation_records import introduced
from tests.support.evaluation_replies import RIGHT, WRONG, reply, run_record, spent, task, vote

AGENTS = ("alpha", "beta", "gamma")
KNOWN = Known(answer="4", answer_type=AnswerType.NUMBER)


def a_task(
    rated: Mapping[str, float | None], right: str = "", *, number: int = 0, kinds: tuple[str, ...] = ("math",),
    difficulty: str = "easy", answers: Mapping[str, str] | None = None, seed: int = 7,
    attempts: Mapping[str, int] | None = None, samples: tuple[Sampled, ...] = (),
) -> Task:  # fmt: skip
    """A task on which the agents named in `right` (by initials) are right; the others each have a wrong answer."""
    item = RecordedItem(
        id=f"t-{number}", dataset="t", dimensions=kinds, difficulty=difficulty, known=KNOWN, prompt_characters=10
    )
    wrong = {agent: f"9{place}" for place, agent in enumerate(AGENTS)}
    answers_given = {agent: "4" if agent[0] in right else wrong[agent] for agent in AGENTS} | dict(answers or {})
    tries = dict.fromkeys(AGENTS, 1) | dict(attempts or {})
    asking = {agent: RatingCost(calls=count, tokens=10 * count) for agent, count in tries.items()}
    solved = {
        agent: AgentAnswer(answer=answers_given[agent], right=answers_given[agent] == "4", tokens=30)
        for agent in AGENTS
    }
    return Task(item=item, seed=seed, verbalized=rated, solved=solved, asking=asking, skilled="gamma",
                samples=samples)  # fmt: skip


def a_recording(count: int, *, honest: bool) -> list[Record]:
    """Tasks that alpha, beta and gamma are good at in turns; they rate themselves so, or all the same."""
    records: list[Record] = [run_record(COMMAND, "assess", "solve", "skill-fixed")]
    for number in range(count):
        name, able = f"t-{number}", AGENTS[(number // 3) % 3]
        kinds = ["math_computation"] if number % 4 else ["math_computation", "code_generation"]
        about = {"dimensions": kinds, "proxy": ""}
        records.append({**introduced(name, dataset="t"), **about, "difficulty": ("easy", "hard")[number % 2]})
        rated = [{"agent": a, "verbalized": (0.8 if a == able else 0.1) if honest else 0.45} for a in AGENTS]
        votes = [vote(a, RIGHT if a == able else f"Final Answer: 9{place}") for place, a in enumerate(AGENTS)]
        assessed = {"assessments": rated, "usage": spent(3, 90, 30), "duration_ms": 3.0}
        records += [
            reply(name, "assess", assessed, path="/v1/self-assessments"),
            reply(name, "solve", task(RIGHT, votes), path="/v1/tasks"),
            reply(name, "skill-fixed", task(WRONG, executor="alpha"), path="/v1/tasks"),
        ]
    return records
