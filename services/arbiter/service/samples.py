"""Samples are kept as they were drawn, with their answers and the counts of these."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernel.answers import (
    AnswerType,
    Mathematics,
    SameMeaning,
    cluster,
    cluster_forms,
    entropy,
    extract,
    rules_of,
)
from kernel.arbitration.tallies import Tally, most_frequent_spellings, simple_canonical_forms
from kernel.values import value
from services.arbiter.service.values import Sample, SolverResult


@value
class DrawnSample:
    """This value is one sample as it was drawn.

    Attributes:
        text: Its text, without reasoning.
        found: The answer in it as it is written there; None where there is none.
        solver: The solver that gave it; None for the arbiter.
        tokens: Tokens generated [count]; None where the backend does not report them.
        truncated: Whether it ended at its token limit.
    """

    text: str
    found: str | None
    solver: int | None = None
    tokens: int | None = None
    truncated: bool = False


@value
class AnswerForm:
    """The answers that samples hold have this form.

    Attributes:
        answer_type: Its type.
        options: Texts of a choice's options, in order.
        is_canonical: Whether answers are canonical forms already, as a recording has them.
    """

    answer_type: AnswerType
    options: Sequence[str] = ()
    is_canonical: bool = False

    @property
    def is_merged_by_meaning(self) -> bool:
        """Return whether answers in other words can mean the same, so that a model compares them."""
        return rules_of(self.answer_type).is_free_text

    @property
    def has_options(self) -> bool:
        """Return whether the question lists the answers to choose from."""
        return rules_of(self.answer_type).has_options

    def found(self, text: str, *, strict: bool = False) -> str | None:
        """Return the answer in a model's text; if `strict`, only where the text ends in one as the prompt asks."""
        return extract(text, self.answer_type, options=self.options, strict=strict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSamples:
    """This value holds the samples of one question by their answers; solvers and arbiter share the clusters.

    Attributes:
        solvers: Answer of each sample, by solver; None where it is invalid.
        arbiter: The same of the arbiter.
        spelled: Most frequent spelling of an answer, by canonical form.
    """

    solvers: Sequence[Sequence[str | None]]
    arbiter: Sequence[str | None]
    spelled: dict[str, str] = field(default_factory=dict)

    @property
    def tally(self) -> Tally:
        """Return the counts of valid and invalid samples."""
        every = [answer for answers in self.solvers for answer in answers]
        return Tally(
            solvers=[_counts(answers) for answers in self.solvers],
            solver_invalid=every.count(None),
            arbiter=_counts(self.arbiter),
            arbiter_invalid=list(self.arbiter).count(None),
        )


def counted(
    solvers: Sequence[Sequence[str | None]],
    arbiter: Sequence[str | None],
    form: AnswerForm,
    same_meaning: SameMeaning | None = None,
    *,
    mathematics: Mathematics,
) -> CountedSamples:
    """Count answers; those that mean the same count as one.

    Args:
        solvers: The answer found in each sample, by solver; None where there is none.
        arbiter: The same of the arbiter.
        form: Form of the answers.
        same_meaning: Whether two free texts mean the same; None merges no texts by meaning.
        mathematics: Compares expressions.
    """
    canonical = counted_canonical(solvers, arbiter, form)
    if canonical is not None:
        return canonical
    found, kind = _found(solvers, arbiter), form.answer_type
    if form.is_canonical:
        clusters = cluster_forms(found, kind, mathematics=mathematics)
    else:
        clusters = cluster(found, kind, options=form.options, same_meaning=same_meaning, mathematics=mathematics)
    forms: dict[str, str | None] = {spelling: one.canonical for one in clusters for spelling in one.spellings}
    return CountedSamples(
        solvers=[_canonical(answers, forms) for answers in solvers],
        arbiter=_canonical(arbiter, forms),
        spelled={one.canonical: one.representative for one in clusters},
    )


def counted_canonical(
    solvers: Sequence[Sequence[str | None]], arbiter: Sequence[str | None], form: AnswerForm
) -> CountedSamples | None:
    """Count answers that are canonical already: numbers, letters, yes and no; None where there are others."""
    found = _found(solvers, arbiter)
    forms = None if form.is_canonical else simple_canonical_forms(found, form.answer_type, form.options)
    if forms is None:
        return None
    return CountedSamples(
        solvers=[_canonical(answers, forms) for answers in solvers],
        arbiter=_canonical(arbiter, forms),
        spelled=most_frequent_spellings(found, forms),
    )


def _found(solvers: Sequence[Sequence[str | None]], arbiter: Sequence[str | None]) -> list[str]:
    return [answer.strip() for answers in (*solvers, arbiter) for answer in answers if answer is not None]


def contract_sample(drawn: DrawnSample, answer: str | None) -> Sample:
    """Return a sample as the contract spells it."""
    return Sample(
        solver=drawn.solver,
        text=drawn.text,
        answer=answer,
        completion_tokens=drawn.tokens,
        truncated=drawn.truncated,
    )


def solver_result(
    who: tuple[int, str, str], drawn: Sequence[DrawnSample], answers: Sequence[str | None]
) -> SolverResult:
    """Return the result of one solver; `who` is its number, its agent and the agent's model."""
    counts = _counts(answers)
    first = next((place for place, answer in enumerate(answers) if answer is not None), None)
    solver, agent, model = who
    return SolverResult(
        solver=solver,
        agent=agent,
        model=model,
        counts=counts,
        invalid=list(answers).count(None),
        entropy=entropy(list(counts.values())),
        representative=None if first is None else contract_sample(drawn[first], answers[first]),
    )


def _counts(answers: Sequence[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(answer for answer in answers if answer is not None).items()))


def _canonical(answers: Sequence[str | None], forms: Mapping[str, str | None]) -> list[str | None]:
    return [None if answer is None else forms.get(answer.strip()) for answer in answers]
