"""What the tables of a paper take, by hand, and the commands that make them."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.__main__ import app
from cli.evaluation.papers.tasks import made_tasks
from evals.errors import ServiceUnreachable
from evals.paper.estimate import Expected, estimate_table, hours
from evals.paper.loads import ANSWER_TOKENS, Load, arbitration, delegation
from evals.paper.parts import Asked, Paper, parts, words
from evals.paper.report import Made, paper_report, recorded_share
from evals.paper.speed import tokens_per_second
from evals.records import Record
from services.router.settings import Settings


def asked(paper: Paper, precision: str = "") -> Asked:
    source, limits = {"data": "questions"}, {"concurrency": "8", "timeout": "900"}
    return Asked(paper=paper, source=source, items=3, seeds="1,2", max_tokens=64, precision=precision, limits=limits)


def test_the_estimate_is_counted_by_hand() -> None:
    load = Load(requests=2, texts=10, ratings=5, prompts=3, quoted=4)
    expected = Expected(name="a", items=100, seeds=2, load=load, recorded=0.5)

    # A hundred cases are left: 10 texts of 100 tokens and 5 ratings of 64 each.
    assert expected.generated(100) == 100 * (1000 + 320)
    assert expected.read(100) == 100 * (3 * 250 + 400)
    assert hours(132_000, 100) == pytest.approx(0.3667, abs=1e-4)
    table = estimate_table([expected], 100, 100, "as given")
    assert "| a | 100 x 2 | 50 % | 200 | 1,500 | 115,000 | 132,000 | 0.37 |" in table
    assert "with 100 items a gain of 8.0 points or more would show" in table


def test_the_paper_s_own_numbers_are_counted_by_hand() -> None:
    # Eq. 18: 2 * 5 + 2 + 50 generations; and as many of self-consistency.
    assert arbitration(5, 50).generations == 2 * 62
    # Three agents rate themselves twice at most and answer; as many again vote; the service's own rules once more.
    assert delegation(3).generations == (6 + 3) + (9 + 1) + (6 + 3)


@pytest.mark.parametrize(
    ("paper", "commands"),
    [(Paper.MSV, ["routing", "dialectic", "compare"]), (Paper.MC_MAS, ["mc-mas"]), (Paper.DELEGATION, ["delegation"])],
)
def test_the_tables_are_made_by_the_commands_that_exist(paper: Paper, commands: list[str]) -> None:
    made = [words(part) for part in parts(asked(paper, "4-bit"), Path("tasks.jsonl"))]

    assert [typed[0] for typed in made] == commands
    for typed in made:
        help_text = CliRunner().invoke(app, ["eval", typed[0], "--help"], env={"COLUMNS": "200"}).output
        assert [word for word in typed if word.startswith("--") and word not in help_text] == []


def test_the_service_that_learns_is_asked_one_task_at_a_time() -> None:
    [part] = parts(asked(Paper.DELEGATION), Path("tasks.jsonl"))

    assert part.options["concurrency"] == "1"
    assert "--product" in words(part)


def test_what_is_recorded_is_not_estimated_again() -> None:
    replies = [{"kind": "reply", "reply": {}}] * 3 + [{"kind": "reply", "error": {"status": 504}}]

    assert recorded_share(replies, 12) == 0.25
    assert recorded_share(replies * 9, 12) == 1.0


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (["delegation", "--model", "m", "--autogen-python", "python"], "give its URL"),
        (["mc-mas", "--model", "m", "--autogen-python", "python", "--url", "u"], "tables of delegation alone"),
        (["mc-mas", "--model", "m", "--data", ".", "--hub", "boolq"], "not both"),
        (["mc-mas", "--model", "m", "--hub", "rivers", "--tokens-per-second", "1"], "there is no public set rivers"),
    ],
)
def test_what_is_asked_wrongly_is_named(typed: list[str], complaint: str, tmp_path: Path) -> None:
    words_typed = ["eval", "paper", *typed, "--out", str(tmp_path / "out")]

    ended = CliRunner().invoke(app, words_typed, env={"COLUMNS": "200"})

    assert complaint in f"{ended.output} {getattr(ended.exception, 'message', '')}"


def test_texts_whose_length_the_service_sets_are_estimated_by_its_default() -> None:
    [routing, *_] = parts(asked(Paper.MSV), Path("tasks.jsonl"))
    load = Load(requests=1, texts=2, ratings=0, prompts=1)
    expected = Expected(name="routing", items=1, seeds=1, load=load, text_tokens=routing.text_tokens)

    assert routing.text_tokens == ANSWER_TOKENS == Settings.model_fields["answer_max_tokens"].default
    assert expected.generated(64) == 2 * ANSWER_TOKENS
    assert "64 tokens a text (routing: 1024, its default)" in estimate_table([expected], 64, 1, "as given")


def test_every_evaluation_of_a_paper_records_the_precision() -> None:
    made = [part for paper in Paper for part in parts(asked(paper, "4-bit"), Path("tasks.jsonl"))]

    assert {part.options.get("precision") for part in made} == {"4-bit"}


@pytest.mark.parametrize(
    ("items", "data", "complaint"),
    [("2", "questions", "20 tasks, and 35 are asked for"), ("1", "others", "is asked for"), ("1", "questions", "")],
)
def test_tasks_of_another_benchmark_are_not_measured(items: str, data: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "out" / "tasks.jsonl"
    made_from = Asked(paper=Paper.DELEGATION, source={"data": str(tmp_path / "questions")}, items=1, seeds="7",
                      max_tokens=64, limits={})  # fmt: skip
    with made_tasks(file, made_from) as unfinished:
        unfinished.write_text("{}\n" * 20)
        assert not file.exists()
    typed = ["eval", "paper", "delegation", "--model", "m", "--data", str(tmp_path / data), "--items", items,
             "--tokens-per-second", "9", "--estimate-only", "--out", str(tmp_path / "out")]  # fmt: skip

    ended = CliRunner().invoke(app, typed)

    message = getattr(ended.exception, "message", "")
    assert complaint in message
    assert ("give the options that it was made with, or another --out" in message) == bool(complaint)
    assert (ended.exit_code == 0) == (not complaint)


def test_an_unreachable_router_is_named_when_the_speed_is_measured() -> None:
    async def post(_path: str, _body: object) -> Record:
        raise ServiceUnreachable("no router answers")

    with pytest.raises(ServiceUnreachable, match="no router answers"):
        asyncio.run(tokens_per_second(post, 3))


def test_an_evaluation_without_an_answer_is_left_out_and_a_superseded_error_is_no_failure() -> None:
    request: Record = {"kind": "reply", "item": "a", "asked": "draft"}
    answered: list[Record] = [{"kind": "run"}, {**request, "error": {"status": 504}}, {**request, "reply": {}}]
    heading: Record = {"kind": "run", "command": "mc-mas", "arms": {}}

    page = paper_report(
        "MSV",
        "",
        [
            Made(folder="done", part="routing", records=answered, typed=""),
            Made(folder="begun", part="mc-mas", records=[heading], typed=""),
        ],
    )

    assert "| [routing](done/routing/report.md) | 1 |" in page
    # One request, and none of it failed.
    assert " | 1 | 0 | 0 | 0 | [routing_done.jsonl.gz]" in page
    assert "Left out, since they have no answer yet: `begun/mc-mas`." in page
