"""Recorded self-assessments and answers, read as tasks that can be replayed. Pure."""

from collections.abc import Mapping, Sequence

from evals.delegation.arms import ASSESS, SKILL, SOLVE
from evals.harness.rows import Facts, Recorded, Row
from kernel.answers import AnswerType, cluster, extract
from kernel.values import value


@value
class Solved:
    """What one agent answered.

    Attributes:
        answer: Its answer in the form in which answers are compared; None when it gave none.
        right: Whether it is right.
        tokens: Tokens that it took [count].
    """

    answer: str | None
    right: bool
    tokens: int


@value
class Task:
    """One task with what everybody said of themselves, and answered.

    Attributes:
        item: The item.
        seed: The seed.
        verbalized: What each agent said of itself, c^v [0..1]; None where it was unknown.
        solved: What each agent answered.
        assess_tokens: Tokens of one self-assessment, in the mean [count].
        skilled: Agent that the rule by keywords chooses; empty where that was not recorded.
    """

    item: Facts
    seed: int
    verbalized: Mapping[str, float | None]
    solved: Mapping[str, Solved]
    assess_tokens: float
    skilled: str

    @property
    def kinds(self) -> tuple[str, ...]:
        """Dimensions that profiles are kept by; one for all where the item names none."""
        return self.item.dimensions or ("any",)

    @property
    def best_agents(self) -> frozenset[str]:
        """The optimal agents: those who were right; several are a tie, and none of them was."""
        return frozenset(agent for agent, solved in self.solved.items() if solved.right)


def tasks(made: Recorded) -> Sequence[Task]:
    """The tasks on which every agent both rated itself and answered, in the order of the records."""
    rated = {(row.item.id, row.seed): row for row in made.of(ASSESS)}
    chosen = {(row.item.id, row.seed): row.reply["executor"] for row in made.of(SKILL)}
    return [
        _task(rated[key], row, chosen.get(key, ""))
        for row in made.of(SOLVE)
        if (key := (row.item.id, row.seed)) in rated
    ]


def _task(rated: Row, solved: Row, skilled: str) -> Task:
    assessments = rated.reply["assessments"]
    spent = rated.said.spent
    return Task(
        item=solved.item,
        seed=solved.seed,
        verbalized={each["agent"]: each["verbalized"] for each in assessments},
        solved=_solved(solved),
        assess_tokens=(spent.prompt_tokens + spent.completion_tokens) / max(1, len(assessments)),
        skilled=skilled,
    )


def _solved(row: Row) -> Mapping[str, Solved]:
    kind = row.item.known.answer_type
    found = {vote["agent"]: _answer(vote["text"], kind) for vote in row.reply["votes"]}
    said = [answer for answer in found.values() if answer is not None]
    homes = {spelling: one.canonical for one in cluster(said, kind) for spelling in one.spellings}
    return {
        vote["agent"]: Solved(
            answer=homes.get((found[vote["agent"]] or "").strip()),
            right=row.judged_text(vote["text"], f"vote:{vote['agent']}").right,
            tokens=vote["usage"]["prompt_tokens"] + vote["usage"]["completion_tokens"],
        )
        for vote in row.reply["votes"]
    }


def _answer(text: str, kind: AnswerType) -> str | None:
    """The answer in a text; a free text that names none is its answer as a whole, as the service has it."""
    found = extract(text, kind)
    return (text.strip() or None) if found is None and kind is AnswerType.TEXT else found
