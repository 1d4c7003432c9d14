"""Samples that exist, measured: the example of the contract, truth, batches, and texts."""

from typing import Any

import pytest

from chassis.errors import RequestOverLimit
from kernel.answers import AnswerType
from kernel.arbitration.modes import AnswerSource, Regime
from kernel.errors import MalformedRequest
from kernel.outcomes import Outcome
from sandbox.mathematics import InProcessCalculator
from services.arbiter.service.claim_tracing import Tracer
from services.arbiter.service.measurement import MeasureLimits, measure
from services.arbiter.service.values import MeasureRequest, MeasureResponse, SampledQuestion
from tests.support.arbiter import AwayEncoder, WordEncoder

MOST = MeasureLimits(samples=100, solvers=4)


async def measured(*, encoder: Any = None, **fields: Any) -> MeasureResponse:  # noqa: ANN401
    tracer = Tracer(encoder or WordEncoder(), batch_timeout_s=5)
    return await measure(MeasureRequest(**fields), tracer=tracer, most=MOST, calculator=InProcessCalculator())


async def test_the_example_of_the_contract_comes_out() -> None:
    found = await measured(
        answer_type=AnswerType.NUMBER,
        solver_answers=["12", "12", "13"],
        arbiter_answers=["12", "12"],
        truth="12",
    )

    # H(2/3, 1/3) = 2/3 ln(3/2) + 1/3 ln 3 = 0.2703 + 0.3662.
    assert found.entropy_solver == pytest.approx(0.6365, abs=1e-4)
    assert (found.answer, found.entropy_arbiter, found.compression) == ("12", 0.0, 1.0)
    assert found.entropy_reduction == found.entropy_solver
    assert (found.correct, found.overconfident_error) == (True, False)
    assert (found.solver, found.arbiter) == ({"12": 2, "13": 1}, {"12": 2})


async def test_spellings_of_one_answer_count_as_one() -> None:
    found = await measured(
        answer_type=AnswerType.NUMBER, solver_answers=["$1,200", "1200.0", "12"], arbiter_answers=["1200"]
    )

    assert found.solver == {"1200 USD": 2, "12": 1}


async def test_the_type_is_inferred_from_the_answers_and_reported() -> None:
    kinds = [
        (await measured(solver_answers=answers)).answer_type
        for answers in (["12", "12.0", "x"], ["yes", "no", "yes"], ["A", "(b)"], ["paris", "rome"])
    ]

    assert kinds == [AnswerType.NUMBER, AnswerType.BOOLEAN, AnswerType.CHOICE, AnswerType.TEXT]


async def test_without_arbitration_the_solvers_vote_is_measured() -> None:
    found = await measured(solver_answers=["yes", "no", "yes", ""], answer_type=AnswerType.BOOLEAN)

    assert (found.answer, found.answer_source, found.confidence) == ("true", AnswerSource.SOLVER_VOTE, 2 / 3)
    assert found.entropy_arbiter is None
    assert found.undefined_reasons["compression"] == "there was no arbitration"
    assert found.solver_invalid_share == 0.25


async def test_all_invalid_abstains_with_reasons() -> None:
    found = await measured(solver_answers=["?", ""], arbiter_answers=["?"], truth="4", answer_type=AnswerType.NUMBER)

    assert (found.answer, found.outcome, found.confidence, found.correct) == ("", Outcome.ABSTAINED, None, None)
    assert found.undefined_reasons["entropy_solver"] == "no solver sample holds a valid answer"
    assert found.undefined_reasons["entropy_arbiter"] == "no arbitration sample holds a valid answer"
    assert found.undefined_reasons["correct"] == "there is no answer"


async def test_the_truth_shows_overconfident_errors_also_of_each_solver() -> None:
    found = await measured(
        answer_type=AnswerType.NUMBER,
        solver_answers=["12", "12", "12", "13", "12", "13", "13", "13"],
        solver_indices=[0, 0, 0, 0, 1, 1, 1, 1],
        arbiter_answers=["13", "13", "13", "12"],
        truth="12",
    )

    assert (found.answer, found.correct, found.confidence, found.overconfident_error) == ("13", False, 0.75, True)
    assert [(one.answer, one.correct, one.overconfident_error) for one in found.solvers] == [
        ("12", True, False),
        ("13", False, True),
    ]


async def test_an_alias_of_the_truth_is_right_and_merges_nothing() -> None:
    found = await measured(
        answer_type=AnswerType.TEXT, solver_answers=["NYC", "New York"], truth="New York", truth_aliases=["NYC"]
    )

    assert (found.answer, found.correct) == ("new york", True)
    assert found.solver == {"new york": 1, "nyc": 1}


async def test_solvers_that_agree_on_a_wrong_answer_share_a_bias() -> None:
    found = await measured(answer_type=AnswerType.NUMBER, solver_answers=["13", "13"], truth="12")

    assert list(found.failure_regimes) == [Regime.HIGH_AGREEMENT, Regime.SHARED_BIAS]


async def test_texts_are_traced_where_they_are_given() -> None:
    encoder = WordEncoder()
    found = await measured(
        encoder=encoder,
        solver_answers=["12", "13"],
        arbiter_answers=["12"],
        solver_traces=["The boxes hold twelve apples."],
        critiques=["Pears were forgotten."],
        arbiter_texts=["The boxes hold twelve apples. Nobody likes rain.\nFinal Answer: 12"],
    )

    # Of two final claims one is word for word a solver's, one has no word in common with it.
    assert (found.novelty, found.novelty_threshold) == (0.5, 0.7)
    assert (found.semantic_share, found.symbolic_share, found.untraced_share) == (0.5, 0.0, 0.5)
    # Four claims, one pair of which is alike: 1 of 6 pairs.
    assert found.redundancy == pytest.approx(1 / 6)
    assert encoder.calls == 1


async def test_an_encoder_that_is_away_costs_only_its_own_measures() -> None:
    found = await measured(
        encoder=AwayEncoder(),
        solver_answers=["12", "13"],
        arbiter_answers=["12"],
        solver_traces=["The boxes hold twelve apples."],
        arbiter_texts=["The boxes hold twelve apples."],
    )

    assert found.novelty is None
    assert found.undefined_reasons["novelty"].startswith("ENCODER_UNAVAILABLE: ")
    assert found.entropy_arbiter == 0.0


async def test_a_batch_is_measured_together_and_summed_up() -> None:
    number = AnswerType.NUMBER
    batch = [
        SampledQuestion(
            id="right", answer_type=number, solver_answers=["1", "1", "2", "2"], solver_indices=[0, 0, 1, 1],
            arbiter_answers=["1"], truth="1",
        ),
        SampledQuestion(
            id="wrong", answer_type=number, solver_answers=["1", "1", "2", "3"], solver_indices=[0, 0, 1, 1],
            arbiter_answers=["2"], truth="1",
        ),
        SampledQuestion(
            id="none", answer_type=number, solver_answers=["?", "?"], solver_indices=[0, 1], truth="1"
        ),
        SampledQuestion(id="unjudged", answer_type=number, solver_answers=["7"]),
    ]  # fmt: skip

    found = await measured(batch=batch)

    assert [one.id for one in found.batch] == ["right", "wrong", "none", "unjudged"]
    summary = found.summary
    assert summary is not None
    assert (summary.questions, summary.answered, summary.judged) == (4, 3, 3)
    # An abstention is no right answer. Both errors of the arbiter: one of them with p = 1.
    assert summary.accuracy == pytest.approx(1 / 3)
    assert summary.overconfident_errors == 1
    # The first solver is right twice of three.
    assert summary.strongest_solver == 0
    assert summary.strongest_solver_accuracy == pytest.approx(2 / 3)
    assert summary.strongest_solver_overconfident_errors == 0
    assert summary.defined["entropy_reduction"] == 2


async def test_an_answer_that_equality_cannot_judge_counts_neither_for_a_solver_nor_against_it() -> None:
    code = AnswerType.CODE
    batch = [
        SampledQuestion(
            answer_type=code, solver_answers=["x = 1", "y = 1"], solver_indices=[0, 1], arbiter_answers=["x = 1"],
            truth="x = 1",
        ),
        SampledQuestion(
            answer_type=code, solver_answers=["z = 1", "x = 1"], solver_indices=[0, 1], arbiter_answers=["x = 1"],
            truth="x = 1",
        ),
        SampledQuestion(
            answer_type=code, solver_answers=["x = 1", "?"], solver_indices=[0, 1], arbiter_answers=["w = 1"],
            truth="x = 1",
        ),
    ]  # fmt: skip

    summary = (await measured(batch=batch)).summary

    # Equality cannot judge the third answer; of the other two each solver has one that is known, and right.
    assert summary is not None
    assert (summary.judged, summary.accuracy) == (2, 1.0)
    assert (summary.strongest_solver, summary.strongest_solver_accuracy) == (0, 1.0)


@pytest.mark.parametrize("beside", [{"answer_type": AnswerType.TEXT}, {"truth": "1"}, {"solver_traces": ["It is 1."]}])
async def test_fields_of_a_single_question_are_an_error_beside_a_batch(beside: dict[str, Any]) -> None:
    with pytest.raises(MalformedRequest) as raised:
        await measured(batch=[SampledQuestion(solver_answers=["1"])], **beside)

    assert raised.value.metadata["field"] == next(iter(beside))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, MalformedRequest),
        ({"solver_answers": ["1"], "batch": [SampledQuestion(solver_answers=["1"])]}, MalformedRequest),
        ({"solver_answers": ["1", "2"], "solver_indices": [0]}, MalformedRequest),
        ({"solver_answers": ["1"] * 101}, RequestOverLimit),
        ({"solver_answers": ["1"], "solver_indices": [4]}, RequestOverLimit),
        ({"batch": [SampledQuestion(solver_answers=["1"])] * 10_001}, RequestOverLimit),
    ],
)
async def test_what_cannot_be_measured_is_an_error(fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        await measured(**fields)
