"""Recorded self-assessments and answers, read as tasks that can be replayed. Pure."""

from collections.abc import Mapping, Sequence

from evals.delegation.arms import ASSESS, SAME_CALLS, SKILL, SOLVE, all_have_answered, all_have_rated, calls_of
from evals.harness.rows import RecordedEvaluation, RecordedItem, Row
from evals.records import Record
from evals.scorers.answers import Known
from kernel.answers import AnswerType, cluster, extract, is_right, rules_of
from kernel.values import value
from sandbox.client_mathematics import client_mathematics

Key = tuple[str, int]
"""Item and seed of a task."""


@value
class RatingCost:
    """The cost of one agent's self-assessment.

    Attributes:
        calls: Calls, a second one where the first could not be read [count].
        tokens: Tokens of these [count].
    """

    calls: int
    tokens: float


@value
class Sampled:
    """One sample of self-consistency.

    Attributes:
        answer: Its answer in the form in which answers are compared; None when it gave none.
        right: Whether it is right.
        tokens: Tokens that it took, those of the prompt with the first sample of each request [count].
    """

    answer: str | None
    right: bool
    tokens: float


@value
class AgentAnswer:
    """The answer of one agent.

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
    """One task with every agent's self-assessment and answer.

    Attributes:
        item: The item.
        seed: The seed.
        verbalized: Each agent's rating of itself, c^v [0..1]; None where it is unknown.
        asking: What it took to ask each agent.
        solved: What each agent answered.
        skilled: Agent that the rule by keywords chooses; empty where that was not recorded.
        samples: Samples of self-consistency, in the order in which they were drawn; none where it was not asked.
    """

    item: RecordedItem
    seed: int
    verbalized: Mapping[str, float | None]
    asking: Mapping[str, RatingCost]
    solved: Mapping[str, AgentAnswer]
    skilled: str
    samples: tuple[Sampled, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Dimensions that profiles are kept by; one for all where the item names none."""
        return self.item.dimensions or ("any",)

    @property
    def best_agents(self) -> frozenset[str]:
        """The optimal agents: those who were right; several are a tie, and none of them was."""
        return frozenset(agent for agent, solved in self.solved.items() if solved.right)


def tasks(made: RecordedEvaluation) -> Sequence[Task]:
    """The tasks on which every agent both rated itself and answered, in the order of the records."""
    rated = {_key(row): row for row in made.of(ASSESS)}
    chosen = {_key(row): row.reply["executor"] for row in made.of(SKILL)}
    sampled = {_key(row): _samples(row) for row in made.of(SAME_CALLS)}
    lost = left_out(made)
    return [
        _task(rated[key], row, chosen.get(key, ""), sampled.get(key, ()))
        for row in made.of(SOLVE)
        if (key := _key(row)) in rated and key not in lost
    ]


def left_out(made: RecordedEvaluation) -> frozenset[Key]:
    """Tasks that no replay has: a rating or an answer failed, as a whole or of one of the agents."""
    failed = {_key(row) for arm in (ASSESS, SOLVE) for row in made.failed_of(arm)}
    unrated = {_key(row) for row in made.of(ASSESS) if not all_have_rated(row.reply)}
    unanswered = {_key(row) for row in made.of(SOLVE) if not all_have_answered(row.reply)}
    return frozenset(failed | unrated | unanswered)


def _key(row: Row) -> Key:
    return row.item.id, row.seed


def _task(rated: Row, solved: Row, skilled: str, samples: tuple[Sampled, ...]) -> Task:
    assessments = rated.reply["assessments"]
    return Task(
        item=solved.item,
        seed=solved.seed,
        verbalized={each["agent"]: each["verbalized"] for each in assessments},
        asking={each["agent"]: _asking(each, rated) for each in assessments},
        solved=_solved(solved),
        skilled=skilled,
        samples=samples,
    )


def _asking(assessment: Record, rated: Row) -> RatingCost:
    """Return what one agent's self-assessment took; the mean over agents where it does not report its own tokens."""
    own, whole = assessment.get("usage"), rated.said.spent
    if own:
        return RatingCost(calls=calls_of(assessment), tokens=own["prompt_tokens"] + own["completion_tokens"])
    mean = (whole.prompt_tokens + whole.completion_tokens) / len(rated.reply["assessments"])
    return RatingCost(calls=calls_of(assessment), tokens=mean)


def _samples(row: Row) -> tuple[Sampled, ...]:
    """The samples of self-consistency, the tokens of each request's prompt with the first of its samples."""
    said, spent = row.reply.get("samples") or (), row.said.spent
    requests = max(1, spent.http_calls)
    prompt = spent.prompt_tokens / requests
    return tuple(
        Sampled(
            answer=each["answer"],
            right=_is_right(each["answer"], row.item.known),
            tokens=(each.get("completion_tokens") or 0) + (prompt if place * requests % len(said) < requests else 0),
        )
        for place, each in enumerate(said)
    )


def _is_right(answer: str | None, known: Known) -> bool:
    if answer is None:
        return False
    mathematics = client_mathematics()
    options, aliases = known.choices, known.aliases
    right = is_right(answer, known.answer, known.answer_type, options=options, aliases=aliases, mathematics=mathematics)
    return right is True


def _solved(row: Row) -> Mapping[str, AgentAnswer]:
    kind = row.item.known.answer_type
    found = {vote["agent"]: _answer(vote["text"], kind) for vote in row.reply["votes"]}
    said = [answer for answer in found.values() if answer is not None]
    groups = cluster(said, kind, mathematics=client_mathematics())
    homes = {spelling: one.canonical for one in groups for spelling in one.spellings}
    return {
        vote["agent"]: AgentAnswer(
            answer=homes.get((found[vote["agent"]] or "").strip()),
            right=row.judged_text(vote["text"], f"vote:{vote['agent']}").right,
            tokens=vote["usage"]["prompt_tokens"] + vote["usage"]["completion_tokens"],
        )
        for vote in row.reply["votes"]
    }


def _answer(text: str, kind: AnswerType) -> str | None:
    """The answer in a text; a free text that names none is its answer as a whole, as the service has it."""
    found = extract(text, kind)
    return (text.strip() or None) if found is None and rules_of(kind).is_free_text else found
