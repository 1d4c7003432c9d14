"""The real NRC lexicon, which `make test-nrc` installs first: its licence is for research only.

Nothing depends on it.
"""

from pathlib import Path

import orjson
from typer.testing import CliRunner

from cli.__main__ import app
from configuration.affect import analyser
from evals.harness.session import RECORDS
from tests.unit.evals.test_dialectic import a_recording

CALM = "List the files in the current directory."
OUTCRY = "I hate this horrible disgusting betrayal, it is a cruel nightmare."


def test_the_real_lexicon_reaches_both_ends_and_asks_for_no_download() -> None:
    analyse = analyser("nrc")

    assert (analyse(CALM)["intensity"], analyse(OUTCRY)["intensity"]) == (0.0, 1.0)
    assert analyse(OUTCRY)["emotion.disgust"] > analyse(OUTCRY)["emotion.joy"]
    assert all(0 <= level <= 1 for level in analyse(OUTCRY).values())


def test_the_evaluation_of_the_dialectic_has_emotional_response_by_both_ways(tmp_path: Path) -> None:
    (tmp_path / RECORDS).write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in a_recording(2)))

    made = CliRunner().invoke(app, ["eval", "dialectic", "--report-only", str(tmp_path), "--affect", "vader,nrc"])

    report = (tmp_path / "report.md").read_text()
    assert made.exit_code == 0
    assert "| text | in the state | vader | nrc |" in report
    assert "for research purposes only; cite S. Mohammad and P. Turney" in report
