"""Calibration and activations are the same on both APIs."""

from functools import partial

import pytest

from chassis.serving.auth import ANYONE, ApiKey
from kernel.errors import TeachingNotAllowed
from services.router.errors import CalibrationNotFound
from services.router.service.calibration.calibration import rollback_calibration
from services.router.service.calibration.values import RollbackCalibrationRequest
from tests.contract.calibration_fakes import FakeCalibration
from tests.support.apis import Api, ApiError

PAIR = {"strategy": "system1", "confidence_source": "assessment"}


async def test_a_row_shows_how_far_a_confidence_can_be_trusted(router: Api) -> None:
    await router.ask("RollbackCalibration", **PAIR, newest=True)

    page = await router.ask("GetCalibration", strategy="system1", bins=4)

    [row] = page["reliabilities"]
    assert (row["strategy"], row["confidence_source"], row["observations"]) == ("system1", "assessment", 4)
    # (.25 - 0)² + (.75 - 1)² + (.75 - 0)² + (1 - 1)² = .6875
    assert row["raw"]["brier_score"] == pytest.approx(0.6875 / 4)
    # bin [.25, .5): |0 - .25|; bin [.75, 1]: |2 - 2.5|; together over 4
    assert row["raw"]["calibration_error"] == pytest.approx(0.75 / 4)
    assert [bin["observations"] for bin in row["raw"]["bins"]] == [0, 1, 0, 3]
    assert [bin["observations"] for bin in row["served"]["bins"]] == [1, 2, 1, 0]
    assert row["raw"]["bins"][0]["accuracy"] is None
    assert row["chance_calibration_error"] > 0
    assert page["minimum_observations"] == 100


async def test_a_row_has_the_map_in_force_and_those_that_can_be(router: Api) -> None:
    await router.ask("RollbackCalibration", **PAIR, newest=True)

    [row] = (await router.ask("GetCalibration", strategy="system1"))["reliabilities"]

    assert (row["map"]["version"], row["map"]["method"], row["map"]["in_force"]) == (
        "system1-assessment-2",
        "PLATT",
        True,
    )
    assert row["map"]["points"] == [{"confidence": 0.0, "calibrated": 0.0}, {"confidence": 1.0, "calibrated": 0.5}]
    assert [one["version"] for one in row["earlier_maps"]] == ["system1-assessment-1"]
    assert row["pinned"] is False


async def test_without_labels_there_are_no_figures(router: Api) -> None:
    [row] = (await router.ask("GetCalibration", strategy="arbiter"))["reliabilities"]

    assert (row["observations"], row["chance_calibration_error"], row["map"]) == (0, None, None)
    assert (row["raw"]["calibration_error"], row["served"]["brier_score"]) == (None, None)
    assert len(row["raw"]["bins"]) == 10


async def test_rows_come_in_pages(router: Api) -> None:
    first = await router.ask("GetCalibration", page_size=1)
    second = await router.ask("GetCalibration", page_size=1, page_token=first["next_page_token"])

    assert [row["strategy"] for row in (*first["reliabilities"], *second["reliabilities"])] == ["arbiter", "system1"]
    assert second["next_page_token"] == ""


@pytest.mark.parametrize("wrong", [{"bins": 0}, {"bins": 101}, {"page_size": 0}, {"page_size": 201}])
async def test_what_is_out_of_range_is_rejected(router: Api, wrong: dict[str, int]) -> None:
    with pytest.raises(ApiError) as raised:
        await router.ask("GetCalibration", **wrong)

    assert raised.value.reason == "MALFORMED_REQUEST"


async def test_an_earlier_map_none_and_the_newest_can_be_put_in_force(router: Api) -> None:
    await router.ask("RollbackCalibration", **PAIR, newest=True)

    earlier = await router.ask("RollbackCalibration", **PAIR, version="system1-assessment-1")
    none = await router.ask("RollbackCalibration", **PAIR, none=True)
    newest = await router.ask("RollbackCalibration", **PAIR, newest=True)

    assert (earlier["map"]["version"], earlier["pinned"]) == ("system1-assessment-1", True)
    assert earlier["previous_version"] == "system1-assessment-2"
    assert (none["map"], none["pinned"], none["previous_version"]) == (None, True, "system1-assessment-1")
    assert (newest["map"]["version"], newest["pinned"]) == ("system1-assessment-2", False)
    assert newest["previous_version"] == ""


async def test_a_map_that_was_not_fitted_is_not_found(router: Api) -> None:
    with pytest.raises(ApiError) as raised:
        await router.ask("RollbackCalibration", **PAIR, version="system1-assessment-9")

    assert (raised.value.code, raised.value.reason) == ("NOT_FOUND", CalibrationNotFound.reason)
    assert raised.value.metadata["version"] == "system1-assessment-9"


@pytest.mark.parametrize(
    "wrong",
    [
        PAIR,
        {**PAIR, "none": False},
        {**PAIR, "version": ""},
        {"strategy": "system1", "newest": True},
        {"confidence_source": "assessment", "newest": True},
        {**PAIR, "strategy": "debate", "newest": True},
    ],
    ids=["no target", "none: false", "no version", "no source", "no strategy", "unknown strategy"],
)
async def test_a_rollback_needs_a_choice_and_a_pair(router: Api, wrong: dict[str, object]) -> None:
    with pytest.raises(ApiError) as raised:
        await router.ask("RollbackCalibration", **wrong)

    assert (raised.value.code, raised.value.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")


async def _refresh() -> None:
    """Refresh nothing."""


async def test_a_key_that_may_not_teach_puts_nothing_in_force() -> None:
    rollback = partial(rollback_calibration, store=FakeCalibration(), refresh=_refresh)
    request = RollbackCalibrationRequest(strategy="system1", confidence_source="assessment", none=True)

    with pytest.raises(TeachingNotAllowed) as raised:
        await rollback(request, key=ApiKey(name="pupil", sha256=""))

    assert (raised.value.code.name, raised.value.reason) == ("PERMISSION_DENIED", "TEACHING_NOT_ALLOWED")
    assert (await rollback(request, key=ANYONE)).previous_version == "system1-assessment-2"


async def test_the_activations_seen_are_served_with_the_threshold_in_force(router: Api) -> None:
    seen = await router.ask("GetActivations", bins=4)

    assert (seen["threshold"], seen["config_version"]) == (0.45, "paper")
    assert (seen["runs"], seen["system_two"], seen["system_two_share"]) == (3, 1, pytest.approx(1 / 3))
    assert [(bin["lower"], bin["upper"]) for bin in seen["bins"]] == [(0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1)]
    assert (seen["runs_by_reason"], seen["quantiles"]) == ({"activation": 3}, {"0.5": 0.25})
    assert (seen["auroc"], seen["auroc_low"], seen["auroc_high"]) == (None, None, None)


async def test_without_runs_there_is_no_share(router: Api) -> None:
    seen = await router.ask("GetActivations", config_version="another")

    assert (seen["runs"], seen["system_two_share"], seen["mean"], seen["quantiles"]) == (0, None, None, {})
    assert len(seen["bins"]) == 20


async def test_cascades_report_their_share_cost_and_labels(router: Api) -> None:
    [cascade] = (await router.ask("GetCascades"))["cascades"]

    assert (cascade["model"], cascade["runs"], cascade["escalated"], cascade["escalated_share"]) == (
        "strong",
        4,
        1,
        0.25,
    )
    assert cascade["runs_by_reason"] == {"DECIDED": 3, "UNDECIDED": 1}
    assert (cascade["priced"], cascade["cost"], cascade["always_cost"], cascade["failed"]) == (4, 14, 40, 0)
    assert (cascade["of_votes"]["labelled"], cascade["of_votes"]["share"]) == (2, 0.5)
    assert (cascade["of_model"]["labelled"], cascade["of_model"]["share"]) == (0, None)


async def test_shadow_runs_are_compared_with_what_was_served(router: Api) -> None:
    [comparison] = (await router.ask("GetShadow"))["comparisons"]

    assert (comparison["policy"], comparison["runs"], comparison["stopped"], comparison["failed"]) == ("p1", 11, 1, 0)
    assert (comparison["answered"]["share"], comparison["agreement"]["runs"], comparison["agreement"]["share"]) == (
        1.0,
        10,
        1.0,
    )
    assert comparison["not_compared"] == {"LONG_ANSWER": 1}
    assert comparison["runs_by_strategy"] == {"vote": 11}
    assert comparison["served_by_strategy"] == {"system1": 11}
    assert (comparison["cost"]["pairs"], comparison["cost"]["ratio"], comparison["cost"]["low"]) == (11, 0.5, 0.5)
    assert (comparison["time"]["served_ms"], comparison["time"]["shadow_ms"]) == (100, 300)
    assert (comparison["time"]["difference_ms"], comparison["time"]["high_ms"]) == (200, 200)
    labels = comparison["labels"]
    assert (labels["served"]["labelled"], labels["shadow"]["right"], labels["labelled_disagreements"]) == (10, 10, 0)
    assert (labels["comparison"], labels["enough"], labels["labels_needed"]) == ("UNDECIDED", False, 6)
    assert (labels["difference"], labels["p"]) == (None, 1.0)


async def test_without_shadow_runs_there_is_no_comparison(router: Api) -> None:
    assert (await router.ask("GetShadow", until="2020-01-01T00:00:00Z"))["comparisons"] == []


async def test_without_runs_there_is_no_cascade(router: Api) -> None:
    assert (await router.ask("GetCascades", until="2020-01-01T00:00:00Z"))["cascades"] == []
