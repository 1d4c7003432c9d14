"""Emotional response of a dialectic's texts by several analysers, from records."""

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from cli.__main__ import app
from evals.dialectic.files import COMMAND, DIALECTIC, with_affect, write_report
from evals.errors import RecordsUnusable
from evals.harness.session import RECORDS
from evals.publishing.records import published
from evals.records import Record
from evals.stats.chance import seeded
from tests.support.evaluation_records import introduced
from tests.support.evaluation_replies import reply, run_record
from tests.unit.evals.test_dialectic import deliberation


def felt(first: str, last: str, stated: float) -> Record:
    """A deliberation whose texts all have the same ER in their state."""
    made = deliberation(first, last, [0.5] * 4, [0.5] * 4)
    states = [{**each, "msv": {**each["msv"], "emotional_response": stated}} for each in made["measurements"]]
    return {**made, "measurements": states}


RECORDED: list[Record] = [
    run_record(COMMAND, DIALECTIC),
    introduced("one", dataset="truth"),
    reply("one", DIALECTIC, felt("ab", "abcdef", 0.2), path="/v1/deliberations"),
    introduced("two", dataset="truth"),
    reply("two", DIALECTIC, felt("abcd", "abcdefgh", 0.4), path="/v1/deliberations"),
]


def by_length(text: str) -> dict[str, float]:
    return {"intensity": len(text) / 100}


def row_of(report: str, text: str) -> list[str]:
    """The figures of a text in the table of ER, without their intervals."""
    after = report[report.index("| text | in the state |") :]
    line = next(line for line in after.splitlines() if line.startswith(f"| {text} |"))
    return [cell.split()[0] for cell in line.split("|")[2:-1]]


def test_texts_have_emotional_response_by_each_way_side_by_side(tmp_path: Path) -> None:
    records = [*RECORDED, *with_affect(RECORDED, {"length": by_length})]

    report = write_report(records, tmp_path, seeded(7, draws=20))

    # In the state the mean of .2 and .4; by length that of 2 and 4 characters, then of 6 and 8, over a hundred.
    assert row_of(report, "thesis") == ["0.30", "0.03"]
    assert row_of(report, "synthesis") == ["0.30", "0.07"]
    assert row_of(report, "synthesis less thesis") == ["0.000", "0.040"]


def test_what_is_measured_already_is_not_measured_again() -> None:
    once = with_affect(RECORDED, {"length": by_length})

    assert len(once) == 2
    assert with_affect([*RECORDED, *once], {"length": by_length}) == []


def test_published_records_keep_what_was_measured_and_cannot_be_measured_later(tmp_path: Path) -> None:
    long = [
        *RECORDED[:2],
        reply("one", DIALECTIC, felt("It may be so, or not.", "I do not know that.", 0.2), path="/v1/deliberations"),
    ]
    kept = published([*long, *with_affect(long, {"length": by_length})])

    assert row_of(write_report(kept, tmp_path, seeded(7, draws=20)), "thesis") == ["0.20", "0.21"]
    with pytest.raises(RecordsUnusable, match="measure ER with --affect before `metacog eval publish`"):
        with_affect(published(long), {"length": by_length})


def test_a_text_that_is_an_answer_alone_has_no_emotional_response() -> None:
    text = "It may be so, or it may not be so."
    records = [
        *RECORDED[:2],
        reply("one", DIALECTIC, felt("Final Answer: yes", text, 0.2), path="/v1/deliberations"),
    ]

    [measured] = with_affect(records, {"length": by_length})

    assert "THESIS" not in measured["levels"]
    assert measured["levels"]["SYNTHESIS"] == len(text) / 100


def test_the_command_measures_by_the_analysers_that_it_names(tmp_path: Path) -> None:
    (tmp_path / RECORDS).write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in RECORDED))
    typed = ["eval", "dialectic", "--report-only", str(tmp_path)]

    made = CliRunner().invoke(app, [*typed, "--affect", "vader"])
    plain = CliRunner().invoke(app, typed)
    unknown = CliRunner().invoke(app, [*typed, "--affect", "words"])

    assert (made.exit_code, plain.exit_code, unknown.exit_code) == (0, 0, 2)
    assert "| text | in the state | vader |" in made.stdout
    assert "in the state" not in plain.stdout
    assert "there is no analyser words" in unknown.stderr
