import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from evals.records import Record
from evals.routing.files import write_report
from evals.routing.rows import recorded
from evals.routing.thresholds import SHARES, Catching, catching, caught_at
from evals.stats.chance import seeded
from tests.support.evaluation_records import HEADING, introduced, routed

# Ten items with their activations, highest first; System 1 is wrong on the first, second, fourth and last.
LEVELS = (0.95, 0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05)
WRONG = {0, 1, 3, 9}


def said_of(levels: Sequence[float | None], wrong: set[int]) -> list[Record]:
    """Records of items with these activations; the router sends from .45 on, and what has no activation."""
    made: list[Record] = [HEADING]
    for number, level in enumerate(levels):
        state: Mapping[str, float] = {} if level is None else {"correctness": 0.5}
        draft = "Final Answer: 5" if number in wrong else "Final Answer: 4"
        made += [introduced(f"sums-{number}"), routed(f"sums-{number}", "draft", state, value=level, draft=draft)]
    return made


def found_in(levels: Sequence[float | None], wrong: set[int]) -> Catching:
    """What sending by `draft` catches of these."""
    return catching("draft", recorded(said_of(levels, wrong)).rows, seeded(7, draws=200))


def test_errors_are_caught_in_the_order_of_the_activation() -> None:
    found = found_in(LEVELS, WRONG)

    # 1, 2, 3 and 5 of ten items are sent: among them are 1, 2, 2 and 3 of the four errors.
    assert [each.sent for each in found.at] == list(SHARES) == [0.1, 0.2, 0.3, 0.5]
    assert [each.errors.value for each in found.at] == pytest.approx([0.25, 0.5, 0.5, 0.75])
    assert (found.wrong.count, found.wrong.of) == (4, 10)


def test_the_threshold_in_force_has_its_own_share() -> None:
    found = found_in(LEVELS, WRONG)

    # Five items reach .45: three of the four errors are among them.
    assert (found.in_force.sent, found.in_force.errors.value) == (0.5, 0.75)


def test_each_share_caught_has_an_interval_around_it() -> None:
    found = found_in(LEVELS, WRONG)

    for each in (*found.at, found.in_force):
        low, seen, high = each.errors.low, each.errors.value, each.errors.high
        assert None not in (low, seen, high)
        assert 0 <= (low or 0) <= (seen or 0) <= (high or 0) <= 1
        assert (high or 0) - (low or 0) > 0.2  # ten items tell little


def test_levels_that_are_all_the_same_catch_what_chance_does() -> None:
    levels, wrong = np.full(10, 0.5), np.isin(np.arange(10), sorted(WRONG))

    assert [caught_at(sent, levels, wrong) for sent in SHARES] == pytest.approx(list(SHARES))


def test_half_an_item_is_sent_half_of_the_time() -> None:
    levels, wrong = np.array([0.9, 0.5, 0.1]), np.array([False, True, True])

    # Half of three items: the first, and the second in one case of two.
    assert caught_at(0.5, levels, wrong) == pytest.approx(0.25)


def test_without_an_error_there_is_nothing_to_catch() -> None:
    found = found_in(LEVELS, set())

    assert {each.errors.value for each in (*found.at, found.in_force)} == {None}


def test_an_item_without_an_activation_is_sent_before_all_others_as_the_router_does() -> None:
    found = found_in((0.9, 0.8, None, 0.2, 0.1), {2})

    # Of five items the first 20 % are the one without an activation, which is the only error.
    assert [each.errors.value for each in found.at] == pytest.approx([0.5, 1.0, 1.0, 1.0])
    assert (found.in_force.sent, found.in_force.errors.value) == (0.6, 1.0)


def test_the_report_shows_what_is_caught_beside_what_chance_would_catch(tmp_path: Path) -> None:
    report = write_report(said_of(LEVELS, WRONG), tmp_path, seeded(7, draws=200))

    share = r"\d+ % \[\d+, \d+\]"
    line = rf"\| draft \| 4 \| 25 % \[.*\] \| 50 % \[.*\] \| {share} \| {share} \| 75 % \[\d+, \d+\] of 50 % sent \|"
    assert re.search(line, report)
    assert "| (by chance) |  | 10 % | 20 % | 30 % | 50 % | the share sent |" in report
