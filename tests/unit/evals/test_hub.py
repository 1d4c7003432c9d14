import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from cli.__main__ import app
from evals.benchmark.programs import LEVELS
from evals.errors import ItemsUnreadable, NotInstalled
from evals.hub.loader import from_hub, load_sets
from evals.hub.sets import SETS
from evals.items import Item
from kernel.answers import AnswerType

LABELLED = {
    "question": "Which is a town?",
    "choices": {"label": ["1", "2"], "text": ["Bern", "Rhine"]},
    "answerKey": "1",
}
# One made-up row for each set, in the set's own fields, with the answer that must come out.
ROWS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "boolq": ({"question": "is ice cold", "answer": True, "passage": "Ice is cold."}, "yes"),
    "strategyqa": ({"question": "Can a fish climb?", "answer": False}, "no"),
    "gsm8k": ({"question": "How many?", "answer": "600 + 600 = 1,200\n#### 1,200"}, "1200"),
    "svamp": ({"Body": "Ann has 2 pens.", "Question": "How many pens has she?", "Answer": 2.0}, "2"),
    "arc_easy": (LABELLED, "A"),
    "arc_challenge": (LABELLED, "A"),
    "commonsenseqa": (LABELLED, "A"),
    "truthfulqa": (
        {"question": "Is it so?", "mc1_targets": {"choices": ["Yes, truly", "No", "Perhaps"], "labels": [1, 0, 0]}},
        "C",
    ),
    "mmlu": ({"question": "Which?", "choices": ["a", "b", "c"], "answer": 2}, "C"),
    "hellaswag": ({"ctx": "She opens the door and", "endings": ["sings", "enters"], "label": "1"}, "B"),
    "piqa": ({"goal": "Open a jar", "sol1": "Turn the lid", "sol2": "Turn the table", "label": 0}, "A"),
    "winogrande": ({"sentence": "The _ fell.", "option1": "cup", "option2": "idea", "answer": "2"}, "B"),
    "humaneval": (
        {"prompt": "def f():\n", "canonical_solution": "    return 1\n", "test": "def check(f):\n    assert f() == 1",
         "entry_point": "f"},
        "def f():\n    return 1\n",
    ),
    "bbh_boolean_expressions": ({"input": "not ( True ) and ( True ) is", "target": "False"}, "no"),
    "bbh_web_of_lies": (
        {"input": "Question: Ann lies. Bo says Ann lies. Does Bo tell the truth?", "target": "Yes"}, "yes",
    ),
    "bbh_formal_fallacies": (
        {"input": "It rains. So it pours.\nIs that valid or invalid?\nOptions:\n- valid \n- invalid",
         "target": "invalid"},
        "B",
    ),
    "bbh_logical_deduction": (
        {"input": "The cup is left of the jug.\nOptions:\n(A) The cup is left\n(B) The jug is left\n(C) None is",
         "target": "(A)"},
        "A",
    ),
    "bbh_causal_judgement": (
        {"input": "How would a typical person answer?\nTom drops a cup. Did Tom break it?\nOptions:\n- Yes\n- No",
         "target": "No"},
        "no",
    ),
    "bbh_date_understanding": (
        {"input": "Today is 3/1. What is the date tomorrow in MM/DD?\nOptions:\n(A) 03/02\n(B) 02/28", "target": "(A)"},
        "A",
    ),
    "bbh_multistep_arithmetic": ({"input": "((-1 + 2) * (3 - -4)) =", "target": "7"}, "7"),
    "bbh_navigate": (
        {"input": "Do you return to the start? Take 2 steps. Turn around. Take 2 steps.\nOptions:\n- Yes\n- No",
         "target": "Yes"},
        "yes",
    ),
    "bbh_object_counting": ({"input": "I have a cow and two cups. How many things do I have?", "target": "3"}, "3"),
    "bbh_sports_understanding": (
        {"input": 'Is the following sentence plausible? "Ann kicked a goal."', "target": "yes"}, "yes",
    ),
    "bbh_temporal_sequences": (
        {"input": "Ann woke up at 5am. When could she have gone to the lake?\nOptions:\n(A) 5am to 6am\n(B) 1pm to 2pm",
         "target": "(B)"},
        "B",
    ),
    "bbh_tracking_shuffled_objects": (
        {"input": "Ann has a cup and Bo a jug. They swap. At the end, Ann has the\nOptions:\n(A) cup\n(B) jug",
         "target": "(B)"},
        "B",
    ),
    "triviaqa": (
        {"question": "Who painted it?", "question_id": "tc_1", "question_source": "http://example.org",
         "entity_pages": {}, "search_results": {},
         "answer": {"value": "Ann Lee", "aliases": ["Ann Lee", "A. Lee"], "normalized_value": "ann lee",
                    "normalized_aliases": ["ann lee", "a lee"], "type": "WikipediaEntity"}},
        "Ann Lee",
    ),
    "nq_open": ({"question": "who sang it first", "answer": ["Ann Lee", "Lee"]}, "Ann Lee"),
    "folio": (
        {"story_id": 1, "premises": "All cups are red.\nThis is a cup.", "premises-FOL": "...",
         "conclusion": "This is blue.", "conclusion-FOL": "...", "label": "False", "example_id": 2},
        "B",
    ),
    "aqua_rat": (
        {"question": "What is 2 + 3?", "options": ["A)4", "B)5", "C)6"], "rationale": "2 + 3 = 5", "correct": "B"}, "B",
    ),
    "math500": (
        {"problem": "Half of $x$?", "solution": "...", "answer": "\\frac{x}{2}", "subject": "Algebra", "level": 4,
         "unique_id": "test/algebra/1.json"},
        "\\frac{x}{2}",
    ),
    "mbpp": ({"prompt": "Write f.", "code": "f = int", "test_list": ["assert f() == 0"]}, "f = int"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SETS))
def test_a_row_of_every_public_set_becomes_an_item(name: str) -> None:
    row, answer = ROWS[name]

    [item] = load_sets([name], 5, lambda _: [row])

    assert (item.id, item.dataset, item.answer) == (f"{name}-0", name, answer)
    assert item.answer_type is not AnswerType.CODE or item.tests


def test_sets_are_taken_in_turns_and_up_to_what_is_asked_for() -> None:
    found = load_sets(["strategyqa", "mmlu"], 2, lambda wanted: [ROWS["mmlu" if "mmlu" in wanted.path else
                                                                      "strategyqa"][0]] * 3)  # fmt: skip

    assert [item.id for item in found] == ["strategyqa-0", "mmlu-0", "strategyqa-1", "mmlu-1"]


def test_the_parts_of_a_row_of_big_bench_hard_are_separated() -> None:
    made = {name: item_of(name) for name in ROWS if "bbh" in name}

    assert made["bbh_boolean_expressions"].question == "Evaluate the expression: not ( True ) and ( True ). Is it true?"
    assert made["bbh_web_of_lies"].question.startswith("Ann lies.")
    assert made["bbh_formal_fallacies"].question.endswith("valid or invalid?")
    assert made["bbh_formal_fallacies"].choices == ("valid", "invalid")
    assert made["bbh_logical_deduction"].choices == ("The cup is left", "The jug is left", "None is")
    assert made["bbh_causal_judgement"].question.endswith("Tom drops a cup. Did Tom break it?")
    assert made["bbh_date_understanding"].choices == ("03/02", "02/28")
    assert made["bbh_multistep_arithmetic"].question == "Compute: ((-1 + 2) * (3 - -4))"
    assert made["bbh_navigate"].question.endswith("Take 2 steps.")
    assert made["bbh_tracking_shuffled_objects"].question.endswith("At the end, Ann has the")
    assert {name: item.dimension for name, item in made.items() if item.dimension != "logical_reasoning"} == {
        "bbh_causal_judgement": "commonsense_inference",
        "bbh_sports_understanding": "commonsense_inference",
        "bbh_multistep_arithmetic": "math_computation",
        "bbh_object_counting": "math_computation",
    }


def item_of(name: str, **changed: object) -> Item:
    """What the made-up row of a set becomes, with some of its fields changed."""
    return load_sets([name], 1, lambda _: [{**ROWS[name][0], **changed}])[0]


def test_every_accepted_answer_of_a_question_is_stored_once() -> None:
    trivia, open_question = item_of("triviaqa"), item_of("nq_open")

    assert (trivia.answer, trivia.aliases) == ("Ann Lee", ("A. Lee",))
    assert (open_question.answer, open_question.aliases) == ("Ann Lee", ("Lee",))
    assert open_question.question == "who sang it first?"
    assert item_of("nq_open", answer=["Ann Lee"]).aliases is None


def test_premises_are_what_a_statement_is_judged_by() -> None:
    item = item_of("folio")

    assert item.question.endswith("is this statement true, false or uncertain? This is blue.")
    assert (item.context, item.choices) == ("All cups are red.\nThis is a cup.", ("True", "False", "Uncertain"))
    assert item_of("folio", label="Uncertain").answer == "C"


def test_options_that_have_their_letter_in_them_lose_it() -> None:
    item = item_of("aqua_rat", options=["A)4", "B) 5 km", "C)$(A) - 1$"])

    assert item.choices == ("4", "5 km", "$(A) - 1$")


@pytest.mark.parametrize(
    ("written", "answer", "kind"),
    [
        ("42", "42", AnswerType.NUMBER),
        ("\\frac{14}{3}", "14/3", AnswerType.NUMBER),
        ("11,\\! 111", "11111", AnswerType.NUMBER),
        ("-2.5", "-2.5", AnswerType.NUMBER),
        ("\\text{Navin}", "Navin", AnswerType.TEXT),
        ("(-\\infty, 2)", "(-\\infty, 2)", AnswerType.TEXT),
        ("3\\sqrt{2}", "3\\sqrt{2}", AnswerType.TEXT),
        ("1,-2", "1,-2", AnswerType.TEXT),
        ("2516_8", "2516_8", AnswerType.TEXT),
        ("5x - 7y + 4 = 0", "5x - 7y + 4 = 0", AnswerType.TEXT),
    ],
)
def test_answers_of_a_contest_are_numbers_where_they_are_one_number(
    written: str, answer: str, kind: AnswerType
) -> None:
    item = item_of("math500", answer=written)

    assert (item.answer, item.answer_type) == (answer, kind)


@pytest.mark.parametrize(
    ("name", "changed", "difficulty"),
    [
        ("math500", {"level": 2}, "easy"),
        ("math500", {"level": 3}, "medium"),
        ("math500", {"level": 4}, "hard"),
        ("folio", {"premises": "a\nb\nc\nd"}, "easy"),
        ("folio", {"premises": "a\nb\nc\nd\ne"}, "medium"),
        ("folio", {"premises": "a\nb\nc\nd\ne\nf"}, "hard"),
        ("nq_open", {"answer": ["Ann of Lee", "Lee"]}, "easy"),
        ("nq_open", {"answer": ["Ann Lee"]}, "medium"),
        ("nq_open", {"answer": ["Ann of Lee"]}, "hard"),
    ],
)
def test_a_difficulty_that_a_set_states_is_used(name: str, changed: Mapping[str, Any], difficulty: str) -> None:
    assert item_of(name, **changed).difficulty == difficulty


PUBLIC = "bbh_web_of_lies,boolq,humaneval,gsm8k,piqa"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that has six rows of every set."""
    names = {(one.path, one.subset): name for name, one in SETS.items()}
    monkeypatch.setattr("evals.hub.loader.from_hub", lambda one: [ROWS[names[one.path, one.subset]][0]] * 6)


@pytest.mark.usefixtures("hub")
def test_a_benchmark_can_be_made_of_public_sets_alone_and_of_a_folder_beside_them(tmp_path: Path) -> None:
    lines = [{"id": f"own-{n}", "dataset": "own", "dimension": "logical_reasoning", "difficulty": LEVELS[n % 3],
              "question": "Is it?", "answer": "yes", "answer_type": "boolean"} for n in range(3)]  # fmt: skip
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = tmp_path / "made" / "tasks.jsonl"
    smaller = ["eval", "benchmark", "--per-cell", "1", "--per-maker", "1", "--out", str(made)]

    for words, logic in (
        (["--hub", PUBLIC], {"bbh_web_of_lies"}),
        (["--hub", PUBLIC.partition(",")[2], "--data", str(tmp_path)], {"own"}),
    ):
        ended = CliRunner().invoke(app, [*smaller, *words])

        assert ended.exit_code == 0, ended.exception
        report = [json.loads(line) for line in made.read_text().splitlines()]
        assert len(report) == 5 * 3 + 5
        assert {one["dataset"] for one in report if one["dimensions"] == ["logical_reasoning"]} == logic


@pytest.mark.usefixtures("hub")
def test_a_set_that_the_folder_has_already_is_not_taken_from_the_hub_too(tmp_path: Path) -> None:
    (tmp_path / "boolq.jsonl").write_text("")

    ended = CliRunner().invoke(app, ["eval", "benchmark", "--hub", PUBLIC, "--data", str(tmp_path)])

    assert "contains it already" in ended.output


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("command", ["mc-mas", "dialectic"])
def test_public_programs_are_rejected_by_name_where_they_cannot_be_judged(command: str, tmp_path: Path) -> None:
    words = ["--hub", "gsm8k,humaneval,mbpp", "--out", str(tmp_path / "out")]

    ended = CliRunner().invoke(app, ["eval", command, *words])

    assert isinstance(ended.exception, ItemsUnreadable)
    assert ended.exception.message.startswith("humaneval, mbpp: programs are not scored by this evaluation")


def test_an_unknown_set_and_a_row_that_is_not_as_expected_are_named() -> None:
    with pytest.raises(ItemsUnreadable, match="no public set rivers; there are boolq"):
        load_sets(["rivers"], 1, lambda _: [])
    with pytest.raises(ItemsUnreadable, match="row 0 of gsm8k is not as its readers expect: KeyError"):
        load_sets(["gsm8k"], 1, lambda _: [{"question": "How many?"}])
    with pytest.raises(ItemsUnreadable, match="mmlu has no items"):
        load_sets(["mmlu"], 1, lambda _: [])


def test_without_the_package_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(NotInstalled, match=r"pip install 'metacog\[evaluation\]'"):
        from_hub(SETS["boolq"])


def test_a_set_that_the_package_rejects_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("Dataset scripts are no longer supported, but found piqa.py")

    package = ModuleType("datasets")
    package.__dict__.update(load_dataset=failed, exceptions=SimpleNamespace(DatasetsError=OSError))
    monkeypatch.setitem(sys.modules, "datasets", package)

    with pytest.raises(ItemsUnreadable, match=r"no longer supported, but found piqa\.py.*--data"):
        from_hub(SETS["boolq"])


def test_no_set_needs_a_loading_script() -> None:
    scripts = {"ybisk/piqa", "lukaemon/bbh"}

    assert not scripts & {one.path for one in SETS.values()}
