"""The calibration error that the metrics show."""

from collections.abc import Sequence

import numpy as np
import pytest
from prometheus_client import REGISTRY

from services.router.core.calibration import Progress
from services.router.service.calibration.calibration_error import CalibrationErrors
from services.router.service.calibration.values import GetCalibrationRequest, ObservedOutcomes


class FakeLabels:
    """Four answers, all served with confidence .9, of which `right` were right."""

    def __init__(self, right: int) -> None:
        self.right = right
        self.reads = 0

    async def progress(self) -> Sequence[Progress]:
        return [Progress(strategy="arbiter", confidence_source="consensus", judged=4)]

    async def observed(self, strategy: str, source: str, ask: GetCalibrationRequest) -> ObservedOutcomes:
        self.reads += 1
        scores = np.array([1.0] * self.right + [0.0] * (4 - self.right))
        return ObservedOutcomes(raw=np.full(4, 0.5), served=np.full(4, 0.9), scores=scores)


def shown() -> float | None:
    return REGISTRY.get_sample_value(
        "metacog_calibration_error", {"strategy": "arbiter", "confidence_source": "consensus"}
    )


async def test_the_gap_between_confidence_served_and_share_of_right_answers_is_shown() -> None:
    errors = CalibrationErrors(FakeLabels(right=2))

    await errors.measure()

    assert shown() == pytest.approx(0.4)


async def test_the_error_is_measured_again_only_after_feedback_and_a_pause() -> None:
    now, store = [0.0], FakeLabels(right=4)
    errors = CalibrationErrors(store, every_s=60.0, clock=lambda: now[0])
    await errors.measure()

    now[0] = 61.0
    await errors.measure()
    errors.on_feedback()
    await errors.measure()
    errors.on_feedback()
    now[0] = 100.0
    await errors.measure()

    assert store.reads == 2
    assert shown() == pytest.approx(0.1)
