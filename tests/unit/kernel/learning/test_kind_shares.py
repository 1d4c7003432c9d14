import pytest

from kernel.learning.kind_shares import InvalidKindShares, KindRecord, KindShares, kind_shares
from kernel.votes.prior import SHIPPED_PRIOR

NOTHING_LABELLED = KindShares(kinds={}, overall=(0, 0), prior=0.6)


def test_without_a_label_every_share_is_the_prior() -> None:
    assert NOTHING_LABELLED.overall_share == 0.6
    assert NOTHING_LABELLED.share("sums") == NOTHING_LABELLED.share("") == 0.6
    assert NOTHING_LABELLED.labels("sums") == NOTHING_LABELLED.labels("") == 0


def test_the_share_of_a_kind_is_drawn_by_ten_pseudo_observations_to_the_overall_share() -> None:
    shares = KindShares(kinds={"sums": (30, 6), "towns": (60, 54)}, overall=(90, 60), prior=0.6)

    # overall (60 + 6) / 100 = .66; sums (6 + 6.6) / 40 = .315; towns (54 + 6.6) / 70 = .865714...
    assert shares.overall_share == 0.66
    assert shares.share("sums") == 0.315
    assert shares.share("towns") == pytest.approx(0.865714286, abs=1e-9)


def test_a_kind_without_a_label_has_the_overall_share() -> None:
    shares = KindShares(kinds={"sums": (30, 6)}, overall=(40, 14), prior=0.6)

    assert shares.share("towns") == shares.share("") == shares.overall_share == 0.4
    assert (shares.labels("sums"), shares.labels("towns"), shares.labels("")) == (30, 0, 40)


@pytest.mark.parametrize(("right", "share"), [(0, 0.545454545), (1, 0.636363636)])
def test_the_first_label_does_not_make_the_share_0_or_1(right: int, share: float) -> None:
    assert KindShares(kinds={}, overall=(1, right), prior=0.6).overall_share == pytest.approx(share, abs=1e-9)


def test_answers_of_unknown_kind_count_in_the_overall_share_alone() -> None:
    records = [KindRecord(kind="", labels=20, right=20), KindRecord(kind="sums", labels=10, right=0)]

    shares = kind_shares(records, SHIPPED_PRIOR.share_right)

    assert (shares.kinds, shares.overall) == ({"sums": (10, 0)}, (30, 20))
    assert shares.share("") == pytest.approx((20 + 5.545) / 40)


@pytest.mark.parametrize(
    ("kinds", "overall", "prior"), [({"a": (1, 2)}, (1, 1), 0.5), ({}, (2, 3), 0.5), ({}, (0, 0), 1.5)]
)
def test_counts_and_priors_that_cannot_be_are_rejected(
    kinds: dict[str, tuple[int, int]], overall: tuple[int, int], prior: float
) -> None:
    with pytest.raises(InvalidKindShares):
        KindShares(kinds=kinds, overall=overall, prior=prior)
