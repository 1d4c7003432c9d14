"""The probability that the winner of a vote is right. Source: papers.md 5.2."""

from math import exp, log

import numpy as np
import pytest
from scipy.special import expit, logit

from kernel.answers import AnswerType
from kernel.votes.prior import SHIPPED_PRIOR
from kernel.votes.probability import (
    PLATT_LABELS,
    LabelCount,
    Prior,
    ProbabilityModel,
    VoteEvidence,
    prior_of,
    probability_model,
    ridge_coefficients,
    terms,
    vote_evidence,
)
from kernel.votes.states import ProbabilityState
from kernel.votes.votes import Vote, VoteMode, VoteSource, vote_groups

COEFFICIENTS = (-2.0, 0.5, 1.0, 0.25, 0.125, 0.75, 0.1)


def prior(coefficients: tuple[float, ...] = COEFFICIENTS, precision: float = 1.0, share: float = 0.5) -> Prior:
    rows = tuple(tuple((np.eye(7) * precision)[row].tolist()) for row in range(7))
    return Prior(coefficients=coefficients, precision=rows, share_right=share)


def sigmoid(odds: float) -> float:
    return 1 / (1 + exp(-odds))


def test_the_probability_is_the_sum_of_its_terms_on_the_log_odds() -> None:
    model = probability_model(prior())
    evidence = VoteEvidence(agreeing=4, valid=5, models=2, modes=2, draft_agrees=True, options=10)

    # -2 + .5·4 + 1·4/5 + .25·log2 2 + .125·(2-1) + .75 + .1·ln 10
    assert model.probability(evidence) == pytest.approx(sigmoid(-2 + 2 + 0.8 + 0.25 + 0.125 + 0.75 + 0.1 * log(10)))
    assert (model.state, model.labels) == (ProbabilityState.PRIOR, 0)


def test_evidence_counts_votes_models_and_modes_of_the_winning_group() -> None:
    draft = VoteSource(model="a", mode=VoteMode.DRAFT)
    a, b = (VoteSource(model=name, mode=VoteMode.REASONED) for name in "ab")
    cast = [Vote(source=source, answer=answer) for source, answer in ((draft, "A"), (b, "B"), (a, "A"), (b, None))]

    evidence = vote_evidence(vote_groups(cast, AnswerType.CHOICE), cast, options=4, kind="law")

    assert evidence == VoteEvidence(agreeing=2, valid=3, models=1, modes=2, draft_agrees=True, options=4, kind="law")
    assert vote_evidence((), cast) is None


def test_a_free_answer_has_no_term_for_options() -> None:
    assert terms(VoteEvidence(agreeing=1, valid=1))[-1] == 0.0
    assert terms(VoteEvidence(agreeing=1, valid=1, options=10))[-1] == pytest.approx(log(10))


@pytest.mark.parametrize(("agreeing", "valid", "models"), [(0, 1, 1), (3, 2, 1), (1, 2, 2)])
def test_evidence_that_cannot_be_is_rejected(agreeing: int, valid: int, models: int) -> None:
    with pytest.raises(ValueError, match="agreeing"):
        VoteEvidence(agreeing=agreeing, valid=valid, models=models)


def test_one_vote_alone_has_the_share_of_its_kind() -> None:
    counts = [
        LabelCount(evidence=VoteEvidence(agreeing=1, valid=1, kind=kind), labels=labels, right=right)
        for kind, labels, right in (("law", 6, 6), ("maths", 4, 0))
    ]
    model = probability_model(prior(share=0.9), counts)

    # overall 6 of 10; law (6 + 10·.6)/(6 + 10), maths (0 + 10·.6)/(4 + 10), another kind .6
    alone = {kind: model.probability(VoteEvidence(agreeing=1, valid=1, kind=kind)) for kind in ("law", "maths", "x")}
    assert alone == pytest.approx({"law": 12 / 16, "maths": 6 / 14, "x": 0.6})
    assert (model.state, model.labels) == (ProbabilityState.FITTED, 10)


def test_without_labels_one_vote_has_the_priors_share() -> None:
    assert probability_model(prior(share=0.62)).probability(VoteEvidence(agreeing=1, valid=1)) == pytest.approx(0.62)


def test_the_offset_of_a_kind_is_the_difference_of_log_odds() -> None:
    model = ProbabilityModel(coefficients=COEFFICIENTS, kinds={"law": (30, 27)}, share_right=0.6, labels=100)

    share = (27 + 6) / 40
    assert model.offset("law") == pytest.approx(log(share / (1 - share)) - log(0.6 / 0.4))
    assert model.offset("unseen") == 0.0


def test_coefficients_stay_at_the_prior_where_it_is_held_firmly_and_leave_it_where_it_is_not() -> None:
    design = np.ones((100, 7)) * np.array([1.0, 0, 0, 0, 0, 0, 0])
    right = np.repeat([1.0, 0.0], [80, 20])

    firm = ridge_coefficients(design, right, prior((0.0,) * 7, precision=1e9))
    loose = ridge_coefficients(design, right, prior((0.0,) * 7, precision=1e-9))

    assert firm == pytest.approx(np.zeros(7), abs=1e-6)
    assert loose[0] == pytest.approx(log(4), abs=1e-6)  # the log-odds of 80 right of 100
    assert loose[1:] == pytest.approx(np.zeros(6), abs=1e-9)


def test_the_ridge_balances_labels_and_prior_where_the_slope_of_the_posterior_is_zero() -> None:
    design = np.array([[1.0, 0, 0, 0, 0, 0, 0]])

    found = ridge_coefficients(design, np.array([1.0]), prior((0.0,) * 7, precision=0.25))

    assert 0.25 * found[0] == pytest.approx(1 - sigmoid(found[0]))  # precision · distance = residual


def test_counted_observations_are_repeated_observations() -> None:
    rng = np.random.default_rng(3)
    design = rng.normal(size=(6, 7))
    right = np.array([1.0, 0, 1, 1, 0, 1])
    counts = np.array([1.0, 2, 3, 1, 2, 1])

    repeated = ridge_coefficients(
        np.repeat(design, counts.astype(int), axis=0), np.repeat(right, counts.astype(int)), prior()
    )

    assert ridge_coefficients(design, right, prior(), counts=counts) == pytest.approx(repeated)


def simulated(n: int, coefficients: tuple[float, ...], seed: int) -> list[LabelCount]:
    """Questions of five votes whose winners are right with the probability that `coefficients` give."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        agreeing = int(rng.integers(2, 6))
        evidence = VoteEvidence(agreeing=agreeing, valid=5, models=int(rng.integers(1, agreeing + 1)))
        chance = expit(float(terms(evidence) @ np.array(coefficients)))
        found.append(LabelCount(evidence=evidence, labels=1, right=int(rng.random() < chance)))
    return found


def gap(model: ProbabilityModel, coefficients: tuple[float, ...]) -> float:
    """Mean distance of the probabilities from the true ones."""
    cases = simulated(400, coefficients, seed=9)
    truth = [expit(float(terms(one.evidence) @ np.array(coefficients))) for one in cases]
    return float(np.mean([abs(model.probability(one.evidence) - p) for one, p in zip(cases, truth, strict=True)]))


def test_labels_draw_the_probabilities_to_those_of_the_deployment() -> None:
    truth = (-3.0, 0.3, 2.0, 0.5, 0.0, 0.0, 0.0)

    gaps = [gap(probability_model(prior(), simulated(n, truth, seed=1)), truth) for n in (0, 50, 2_000)]

    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.02


def test_a_curve_is_added_only_where_it_helps() -> None:
    truth = (-3.0, 0.3, 2.0, 0.5, 0.0, 0.0, 0.0)

    fits = probability_model(prior(truth, precision=100.0), simulated(PLATT_LABELS, truth, seed=2))
    misleading = prior((3.0, 0.3, 2.0, 0.5, 0.0, 0.0, 0.0), precision=1e6)  # far too sure, and held firmly
    bent = probability_model(misleading, simulated(PLATT_LABELS, truth, seed=2))
    few = probability_model(misleading, simulated(PLATT_LABELS - 1, truth, seed=2))

    assert (fits.curve, few.curve) == (None, None)
    assert bent.curve is not None
    assert gap(bent, truth) < gap(few, truth)


def test_the_prior_of_models_holds_firmly_what_they_agree_on() -> None:
    rng = np.random.default_rng(5)
    models = []
    for constant in (-2.0, 0.0, 2.0):
        design = np.zeros((4_000, 7))
        design[:, 0] = 1.0
        design[:, 2] = rng.random(4_000)
        right = (rng.random(4_000) < expit(constant + 3 * design[:, 2])).astype(float)
        models.append((design, right))

    found = prior_of(models)
    precision = np.array(found.precision)

    assert precision == pytest.approx(precision.T)
    assert precision[2, 2] > 4 * precision[0, 0]  # the share counts the same for all three, the constant does not
    assert found.coefficients[2] == pytest.approx(3.0, abs=1.0)
    assert found.share_right == pytest.approx(float(np.mean([right.mean() for _, right in models])))


def test_the_shipped_prior_orders_evidence_as_it_must() -> None:
    model = probability_model(SHIPPED_PRIOR)

    def chance(agreeing: int, valid: int, *, models: int = 1, modes: int = 1) -> float:
        evidence = VoteEvidence(agreeing=agreeing, valid=valid, models=models, modes=modes)
        return model.probability(evidence)

    assert np.linalg.eigvalsh(np.array(SHIPPED_PRIOR.precision)).min() > 0
    assert chance(2, 2) > chance(2, 3) > chance(2, 4) > chance(2, 5)
    assert chance(2, 2, models=2) > chance(2, 2)  # another model says more than the same one again
    assert chance(2, 2, modes=2) > chance(2, 2)
    assert chance(3, 3, models=3) > chance(2, 2, models=2)


def test_a_prior_of_one_model_is_none() -> None:
    with pytest.raises(ValueError, match="two models"):
        prior_of([(np.ones((2, 7)), np.ones(2))])


def test_a_share_of_all_right_has_finite_probabilities() -> None:
    counts = [LabelCount(evidence=VoteEvidence(agreeing=2, valid=2), labels=30, right=30)]

    chance = probability_model(prior(), counts).probability(VoteEvidence(agreeing=2, valid=2))

    assert np.isfinite(logit(chance))
    assert chance > probability_model(prior()).probability(VoteEvidence(agreeing=2, valid=2))


def test_labels_one_by_one_and_counted_give_the_same_model() -> None:
    single = simulated(60, COEFFICIENTS, seed=4)
    kinds = {one.evidence for one in single}
    counted = [
        LabelCount(
            evidence=evidence,
            labels=sum(one.evidence == evidence for one in single),
            right=sum(one.right for one in single if one.evidence == evidence),
        )
        for evidence in kinds
    ]

    models = [probability_model(prior(), labels) for labels in (single, counted)]

    assert models[0].coefficients == pytest.approx(models[1].coefficients)
    assert models[0].labels == models[1].labels == 60


@pytest.mark.parametrize(("labels", "right"), [(0, 0), (2, 3), (2, -1)])
def test_counts_that_cannot_be_are_rejected(labels: int, right: int) -> None:
    with pytest.raises(ValueError, match="between 0 and labels"):
        LabelCount(evidence=VoteEvidence(agreeing=1, valid=1), labels=labels, right=right)
