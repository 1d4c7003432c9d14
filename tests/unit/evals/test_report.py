import xml.etree.ElementTree as ElementTree
from pathlib import Path

from evals.records import Record
from evals.routing.files import CURVES, OUTCOMES, REPORT, SCORED, write_report
from evals.routing.requests import Plan
from evals.routing.session import source
from evals.stats.chance import seeded
from tests.support.evaluation_records import HEADING, answered, introduced, routed


def items(count: int, *, reliable: bool) -> list[Record]:
    """As many right as wrong items; `draft` tells them apart if `reliable`, and never if not."""
    made: list[Record] = []
    for number in range(count):
        right = number % 2 == 0
        sure = 0.9 - number / 1000 if right or not reliable else 0.1 + number / 1000
        state = {"correctness": sure, "conflict": (number // 2 % 5) / 10, "importance": 0.3}
        report = "Final Answer: 4" if right else "Final Answer: 5"
        made += [introduced(f"sums-{number}", characters=100 + number // 2 % 7)]
        made += [routed(f"sums-{number}", "draft", state, draft=report, parts={"check": sure, "scope": 0.3})]
    return [HEADING, *made, answered("sums-0", "Final Answer: 4")]


def test_the_report_shows_what_it_was_made_with(tmp_path: Path) -> None:
    report = write_report(items(8, reliable=True), tmp_path, seeded(7, draws=200))

    for expected in (
        "0123456789ab",
        "configuration `paper`, threshold 0.45",
        "scripted",
        "`question` abababababab",
        "seed 7",
        "`rating` cdcdcdcdcdcd",
        "spent: 41 samples, 420 prompt tokens, 88 generated",
    ):
        assert expected in report
    assert "metacog eval routing --data questions --sets sums --items 4" in report
    assert (tmp_path / REPORT).read_text() == report


def test_a_signal_that_separates_wrong_from_right_comes_out_as_one(tmp_path: Path) -> None:
    report = write_report(items(60, reliable=True), tmp_path, seeded(7, draws=200))

    assert "| draft | 60 | 1.00 [" in report
    assert "| draft over prompt length | 0.500 [" in report
    assert "The largest area is that of `draft`; its gain over all others is shown." in report
    assert (
        "`draft`, by themselves no better than chance (the interval holds 0.5): conflict, importance, scope." in report
    )


def test_a_signal_that_separates_nothing_comes_out_as_no_gain(tmp_path: Path) -> None:
    report = write_report(items(60, reliable=False), tmp_path, seeded(7, draws=200))

    assert "no gain: the interval holds 0" in report
    assert "these items do not separate it from prompt length" in report
    assert "1 - check" in report.split("no better than chance")[1]


def test_two_items_show_no_gain_however_well_they_are_separated(tmp_path: Path) -> None:
    report = write_report(items(2, reliable=True), tmp_path, seeded(7, draws=200))

    [line] = [line for line in report.splitlines() if line.startswith("| draft over prompt length |")]
    assert line.endswith("| too few items |")
    assert "these items do not separate it from prompt length" in report
    assert "`draft`, not shown: too few items of the rarer outcome: correctness, conflict, importance." in report


def test_the_command_has_every_option_that_is_not_at_its_default(tmp_path: Path) -> None:
    asked = {"concurrency": 4, "timeout_ms": 90_000, "single_pass": 0}

    report = write_report([{**HEADING, **asked}, *items(2, reliable=True)[1:]], tmp_path, seeded(7, draws=20))

    assert "--assessors draft --seed 7 --single-pass 0 --concurrency 4 --timeout 90 --out DIR`" in report


def test_the_command_of_older_records_has_the_options_of_today(tmp_path: Path) -> None:
    report = write_report([{**HEADING, "plain": 0}, *items(2, reliable=True)[1:]], tmp_path, seeded(7, draws=20))

    assert "--single-pass 0" in report


def test_the_command_names_the_folder_as_a_shell_takes_it(tmp_path: Path) -> None:
    heading = {**HEADING, "data": source(Path("/data/my questions"), Plan(items=()), 4).folder}

    report = write_report([heading, *items(2, reliable=True)[1:]], tmp_path, seeded(7, draws=20))

    assert "`metacog eval routing --data '/data/my questions' --sets sums --items 4 --assessors draft" in report


def test_public_sets_are_shown_by_their_names(tmp_path: Path) -> None:
    heading = {**HEADING, "data": "--hub boolq,arc_easy", "sets": ["boolq", "arc"]}

    report = write_report([heading, *items(2, reliable=True)[1:]], tmp_path, seeded(7, draws=20))

    assert "`metacog eval routing --hub boolq,arc_easy --items 4 --assessors draft" in report


def test_all_digests_of_a_prompt_are_shown(tmp_path: Path) -> None:
    other = {**HEADING, "prompt_digests": {"question": "ff" * 32}}

    report = write_report([*items(2, reliable=True), other], tmp_path, seeded(7, draws=20))

    assert "`question` abababababab and ffffffffffff" in report


def test_the_pictures_are_well_formed(tmp_path: Path) -> None:
    write_report(items(8, reliable=True), tmp_path, seeded(7, draws=200))

    for name in (CURVES, OUTCOMES):
        assert ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg")


def test_each_item_has_a_scored_line(tmp_path: Path) -> None:
    write_report(items(8, reliable=True), tmp_path, seeded(7, draws=200))

    lines = (tmp_path / SCORED).read_text().splitlines()
    assert len(lines) == 8
    assert '"answer":"4","right":true' in lines[0]


def test_one_kind_of_outcome_alone_is_reported_without_areas(tmp_path: Path) -> None:
    right = [HEADING, introduced("sums-0"), routed("sums-0", "draft", {"correctness": 0.9}, draft="Final Answer: 4")]

    report = write_report(right, tmp_path, seeded(7, draws=200))

    assert "| draft | 1 | - |" in report
    assert "there is nothing to separate" in report
    assert "no gain" not in report
    assert "no better than chance" not in report
