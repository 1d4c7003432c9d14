import pytest

from kernel.activation import Route, activation, choose
from kernel.msv import MSV
from kernel.policy import Policy, PolicyRow, condition, deciding_row

# Activation 0.30 * 0.1 + 0.25 * 0.1 + 0.25 * 0.2 + 0.20 * 0.1 = 0.125, and 0.5575.
CALM = MSV(correctness=0.9, conflict=0.1, importance=0.2, experience=0.9)
TROUBLED = MSV(correctness=0.45, conflict=0.72, importance=0.85, experience=1.0)
TABLE = Policy(
    version="v",
    rows=[
        PolicyRow(name="disputed", strategy="arbiter", when={"conflict": condition(">= 0.6")}),
        PolicyRow(name="extreme", strategy="dialectic", when={"activation": condition(">= 0.8")}),
        PolicyRow(name="trifle", strategy="system1", when={"importance": condition("<= 0.05")}, always=True),
        PolicyRow(name="calm", strategy="delegation", when={"conflict": condition("<= 0.1")}),
        PolicyRow(name="unrated", strategy="delegation", when={"activation": condition("unknown")}),
    ],
)


def ruled(msv: MSV, undetermined: Route = Route.SYSTEM_TWO) -> str:
    level = activation(msv)
    row = deciding_row(TABLE, msv, level, choose(level, undetermined=undetermined))
    return row.name if row else ""


def test_a_query_that_goes_to_system_two_is_given_to_the_strategy_of_its_row() -> None:
    assert ruled(TROUBLED) == "disputed"


def test_a_query_that_goes_to_system_one_is_not_the_tables_matter() -> None:
    assert ruled(CALM) == ""


def test_a_row_that_is_always_tried_stands_above_the_activation() -> None:
    trifle = MSV(correctness=0.1, conflict=0.9, importance=0.05, experience=0.1)

    assert choose(activation(trifle)).system is Route.SYSTEM_TWO
    assert ruled(trifle) == "trifle"


def test_where_no_row_matches_the_choice_stands() -> None:
    assert ruled(MSV(correctness=0.1, conflict=0.5, importance=0.9, experience=0.5)) == ""


def test_the_activation_can_be_a_condition_like_a_component() -> None:
    assert ruled(MSV(correctness=0.0, conflict=0.5, importance=1.0, experience=0.0)) == "extreme"  # 0.875


@pytest.mark.parametrize(("undetermined", "row"), [(Route.SYSTEM_TWO, "unrated"), (Route.SYSTEM_ONE, "")])
def test_a_state_of_which_too_little_is_known_is_ruled_on_when_it_goes_to_system_two(
    undetermined: Route, row: str
) -> None:
    assert ruled(MSV(importance=0.5), undetermined) == row


def test_an_unknown_component_is_never_taken_for_a_low_one() -> None:
    assert ruled(MSV(correctness=0.0, importance=0.9)) == "extreme"  # (0.30 + 0.225) / 0.55, conflict unknown
