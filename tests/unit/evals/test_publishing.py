"""Records of every evaluation are published without a text, and give the same report."""

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from cli.__main__ import app
from evals.errors import RecordsUnusable
from evals.harness.session import RECORDS
from evals.publishing.files import publish
from evals.publishing.records import MOST_CHARACTERS, MOST_WORDS, published
from evals.records import Record, read_records
from tests.support import delegation_records
from tests.unit.evals import test_controls, test_dialectic, test_mc_mas, test_report

SECRET = "Ada has three apples and buys four more: how many has she?"
PROGRAM = f"def shared(apples):\n    # {SECRET}\n    return apples + 4"
MARKER = "AssertionError: a detail that the program chose"


def programs() -> list[Record]:
    """Return a comparison in which every fourth item wants a program, and every eighth is one that fails its tests."""
    made = []
    for record in test_controls.compared(knowing=True):
        number = int(str(record.get("item") or record.get("id") or "sums-1").removeprefix("sums-"))
        failed = {"passed": False, "detail": MARKER} if number % 8 else {"passed": True, "detail": ""}
        if number % 4:
            made.append(record)
        elif record["kind"] == "item":
            made.append({**record, "answer": PROGRAM, "answer_type": "CODE", "aliases": [f"# {PROGRAM}"]})
        else:
            made.append({**record, "checks": {"answer": failed}})
    return made


def with_a_long_answer() -> list[Record]:
    """Return a comparison with one item whose known answer and alias are sentences."""
    long = {"answer": f"As to {SECRET}", "answer_type": "TEXT", "aliases": [f"{SECRET} Seven."]}
    records = test_controls.compared(knowing=True)
    return [{**one, **long} if one.get("id") == "sums-3" else one for one in records]


def votes_on_programs() -> list[Record]:
    """Return a delegation in which agents vote on programs: alike in other words, different, and ties of three."""

    def program(number: int) -> str:
        return f"So.\n```python\n# {SECRET}\ndef shared(apples):\n    return apples + {number}\n```"

    made: list[Record] = []
    for record in delegation_records.a_recording(12, honest=True):
        if record["kind"] == "item":
            made.append({**record, "answer": PROGRAM, "answer_type": "CODE", "aliases": []})
        elif record.get("arm") == "solve":
            place = int(record["item"].removeprefix("t-"))
            texts = [program(9 - place % 3), program(4), f"I agree. {program(4 if place % 2 else 5)}"]
            votes = [{**vote, "text": text} for vote, text in zip(record["reply"]["votes"], texts, strict=True)]
            checks = {f"vote:{vote['agent']}": {"passed": "+ 4" in vote["text"], "detail": MARKER} for vote in votes}
            made.append({**record, "reply": {**record["reply"], "votes": votes}, "checks": checks})
        else:
            made.append(record)
    return made


EVALUATIONS: dict[str, Callable[[], Sequence[Record]]] = {
    "compare": lambda: test_controls.compared(knowing=True),
    "compare, with programs": programs,
    "compare, with a long answer": with_a_long_answer,
    "dialectic": test_dialectic.a_recording,
    "mc-mas": lambda: test_mc_mas.a_recording(12),
    "delegation, with programs": votes_on_programs,
    "delegation": lambda: delegation_records.a_recording(12, honest=True),
    "routing": lambda: test_report.items(12, reliable=True),
}


def repeating(record: Record) -> Record:
    """Return the record with texts in which the model repeats its question."""

    def said(part: object) -> object:
        if isinstance(part, dict):
            return {name: said(one) for name, one in part.items()}
        if isinstance(part, list):
            return [said(one) for one in part]
        return part.replace("Final Answer:", f"{SECRET}\nFinal Answer:") if isinstance(part, str) else part

    return said(record)  # type: ignore[return-value]


def texts(part: object) -> list[str]:
    if isinstance(part, dict):
        return [text for one in part.values() for text in texts(one)]
    if isinstance(part, list):
        return [text for one in part for text in texts(one)]
    return [part] if isinstance(part, str) else []


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_the_report_of_published_records_is_that_of_the_records(evaluation: str, tmp_path: Path) -> None:
    records = [repeating(record) for record in EVALUATIONS[evaluation]()]
    assert any(SECRET in text for record in records for text in texts(record))

    publish(records, tmp_path / "a.jsonl.gz")  # an error where the reports differ

    read = read_records(tmp_path / "a.jsonl.gz")
    assert len(read) == len(records)
    for record in read:
        for text in texts(record):
            assert SECRET not in text
            assert MARKER not in text
        for text in texts({name: part for name, part in record.items() if record["kind"] == "reply"}):
            assert len(text) <= MOST_CHARACTERS + len("Final Answer: ")
            assert len(text.split()) <= MOST_WORDS + 2


def test_options_are_letters_and_an_answer_named_by_its_option_is_its_letter() -> None:
    item = {"kind": "item", "id": "a", "dataset": "d", "difficulty": "", "prompt_characters": 3, "aliases": []}
    item |= {"answer": "B", "answer_type": "CHOICE", "choices": ["the moon", "the sun at night"]}
    reply = {"kind": "reply", "item": "a", "reply": {"text": "It is as I say. Final Answer: the sun at night"}}

    found = published([item, reply])

    assert found[0]["choices"] == ["A", "B"]
    assert found[1]["reply"]["text"] == "Final Answer: B"


def test_a_known_program_is_a_digest_and_its_tests_say_only_whether_it_passed() -> None:
    read = published(programs())

    item = next(record for record in read if record.get("id") == "sums-4")
    assert item["answer"].startswith("digest:")
    assert item["aliases"] == []
    checks = [record["checks"] for record in read if record.get("item") == "sums-4"]
    assert checks == [{"answer": {"passed": False}}] * len(checks) != []


def test_records_whose_report_rests_on_texts_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evals.publishing.files.WRITE", {"routing": lambda records, _: "\n".join(texts(list(records)))})
    records = [repeating(record) for record in EVALUATIONS["routing"]()]

    with pytest.raises(RecordsUnusable, match="rests on texts"):
        publish(records, tmp_path / "a.jsonl.gz")
    assert not (tmp_path / "a.jsonl.gz").exists()


def test_the_command_writes_records_that_report_only_takes(tmp_path: Path) -> None:
    records = [repeating(record) for record in EVALUATIONS["mc-mas"]()]
    (tmp_path / RECORDS).write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    file = tmp_path / "out" / "records.jsonl.gz"

    done = CliRunner().invoke(app, ["eval", "publish", str(tmp_path), "--file", str(file)])
    assert done.exit_code == 0, done.exception
    assert SECRET.encode() not in gzip.decompress(file.read_bytes())
    again = CliRunner().invoke(app, ["eval", "mc-mas", "--report-only", str(file)])
    first = CliRunner().invoke(app, ["eval", "mc-mas", "--report-only", str(tmp_path)])

    assert again.exit_code == 0, again.exception
    assert again.stdout == first.stdout
