"""Samples as they were drawn, their answers, and the counts that follow."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernel.answers import (
    IN_THIS_PROCESS,
    AnswerType,
    Mathematics,
    SameMeaning,
    cluster,
    cluster_forms,
    entropy,
    extract,
)
from kernel.arbitration.tallies import Tally, most_frequent_spellings, plain_forms
from kernel.values import value
from services.arbiter.service.values import Sample, SolverResult


@value
class DrawnSamples:
    """A sample as it came.

    Attributes:
        text: Its text, without reasoning.
        found: The answer in it as it is written there; None where there is none.
        solver: The solver that gave it; None for the arbiter.
        tokens: Tokens generated [count]; None where nobody said.
        truncated: Whether it ended at its token limit.
    """

    text: str
    found: str | None
    solver: int | None = None
    tokens: int | None = None
    truncated: bool = False


@value
class AnswerForm:
    """What kind of answer is looked for.

    Attributes:
        answer_type: Its type.
        options: Texts of a choice's options, in order.
        is_canonical: Whether answers are canonical forms already, as a recording has them.
    """

    answer_type: AnswerType
    options: Sequence[str] = ()
    is_canonical: bool = False

    def found(self, text: str, *, strict: bool = False) -> str | None:
        """Answer that a model's text gives; if `strict`, only where it ends in one as it was told to."""
        return extract(text, self.answer_type, options=self.options, strict=strict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSamples:
    """Samples of one question by their answers; those of solvers and arbiter are put together as one.

    Attributes:
        solvers: Answer of each sample, by solver; None where it is invalid.
        arbiter: The same of the arbiter.
        spelled: How an answer is most often written, by canonical form.
    """

    solvers: Sequence[Sequence[str | None]]
    arbiter: Sequence[str | None]
    spelled: dict[str, str] = field(default_factory=dict)

    @property
    def tally(self) -> Tally:
        """The counts."""
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
    mathematics: Mathematics = IN_THIS_PROCESS,
) -> CountedSamples:
    """Answers by what they say.

    Args:
        solvers: The answer found in each sample, by solver; None where there is none.
        arbiter: The same of the arbiter.
        form: What kind of answer they are.
        same_meaning: Judgement of two free texts that are not canonical forms; None merges nothing by meaning.
        mathematics: Who compares expressions.
    """
    plain = plainly_counted(solvers, arbiter, form)
    if plain is not None:
        return plain
    found, kind = _given(solvers, arbiter), form.answer_type
    if form.is_canonical:
        clusters = cluster_forms(found, kind, mathematics=mathematics)
    else:
        clusters = cluster(found, kind, options=form.options, same_meaning=same_meaning, mathematics=mathematics)
    forms: dict[str, str | None] = {spelling: one.canonical for one in clusters for spelling in one.spellings}
    return CountedSamples(
        solvers=[_named(answers, forms) for answers in solvers],
        arbiter=_named(arbiter, forms),
        spelled={one.canonical: one.representative for one in clusters},
    )


def plainly_counted(
    solvers: Sequence[Sequence[str | None]], arbiter: Sequence[str | None], form: AnswerForm
) -> CountedSamples | None:
    """The same where no answer needs more than a look: plain numbers, letters, yes and no; None elsewhere."""
    found = _given(solvers, arbiter)
    plain = None if form.is_canonical else plain_forms(found, form.answer_type, form.options)
    if plain is None:
        return None
    return CountedSamples(
        solvers=[_named(answers, plain) for answers in solvers],
        arbiter=_named(arbiter, plain),
        spelled=most_frequent_spellings(found, plain),
    )


def _given(solvers: Sequence[Sequence[str | None]], arbiter: Sequence[str | None]) -> list[str]:
    return [answer.strip() for answers in (*solvers, arbiter) for answer in answers if answer is not None]


def contract_sample(drawn: DrawnSamples, answer: str | None) -> Sample:
    """A sample as the contract has it."""
    return Sample(
        solver=drawn.solver,
        text=drawn.text,
        answer=answer,
        completion_tokens=drawn.tokens,
        truncated=drawn.truncated,
    )


def solver_result(
    who: tuple[int, str, str], drawn: Sequence[DrawnSamples], answers: Sequence[str | None]
) -> SolverResult:
    """What one solver gave; `who` is its number, its agent and the agent's model."""
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


def _named(answers: Sequence[str | None], forms: Mapping[str, str | None]) -> list[str | None]:
    return [None if answer is None else forms.get(answer.strip()) for answer in answers]
