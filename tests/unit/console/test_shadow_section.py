"""The section of the calibration page on shadow policies."""

from dataclasses import replace

import pytest
from metacog.router.v1.calibration_pb2 import GetShadowResponse

from chassis.serving.wire import to_proto
from console.site import Part, drawn
from services.router.service.shadow.comparison import comparison_of
from services.router.service.shadow.values import ShadowPair

PAIR = ShadowPair(policy="p1", strategy="vote", answered=True, agrees=False, served_strategy="system1")


def section(*pairs: ShadowPair) -> str:
    comparisons = [comparison_of(pairs)] if pairs else []
    reply = to_proto({"comparisons": comparisons}, GetShadowResponse)
    return drawn("calibration/shadow.html", shadow=Part(content=reply))


@pytest.mark.parametrize(
    ("right", "served", "count", "said"),
    [
        (True, False, 6, "Enough to decide: the shadow policy is more often right."),
        (False, True, 6, "Enough to decide: the shadow policy is less often right."),
        (True, False, 5, "Not enough to decide: about 1 more pairs"),
    ],
)
def test_the_section_says_whether_the_labels_decide(*, right: bool, served: bool, count: int, said: str) -> None:
    labelled = replace(PAIR, right=right, served_right=served)

    assert said in section(*[labelled] * count)


def test_a_cost_that_is_unknown_is_shown_as_unknown() -> None:
    shown = section(PAIR, replace(PAIR, answered=False, agrees=None, error_reason="CANCELLED"))

    assert "unknown" in shown
    assert "1 run stopped." in shown


def test_without_shadow_runs_there_is_no_section() -> None:
    assert section().strip() == ""
