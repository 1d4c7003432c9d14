"""The tables of docs/evaluation are made from records; a record or a table that was changed by hand is found."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from docs.generating import heads
from docs.generating.evaluation.all_works import WORKS
from docs.generating.evaluation.works import FOLDER, Work, differing, put, stale
from docs.generating.what_holds import ROWS
from tests.support.stack import ROOT

PAGE = "# Votes\n\n<!-- shares: made by `make evaluation-pages` -->\n\n<!-- end -->\n\nBelow.\n"


def make(root: Path) -> Mapping[str, str]:
    """Count the right answers."""
    lines = gzip.decompress((root / FOLDER / "recorded" / "votes.jsonl.gz").read_bytes()).splitlines()
    right = sum(json.loads(line)["right"] for line in lines)
    return {"votes.md#shares": f"| right | {right} |\n", "votes.svg": f"<svg>{right}</svg>"}


VOTES = Work(name="votes", records=("recorded",), makes=("votes.md#shares", "votes.svg"), make=make)


def record(root: Path, *right: int) -> None:
    text = "".join(json.dumps({"right": one}) + "\n" for one in right)
    (root / FOLDER / "recorded" / "votes.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / FOLDER / "recorded").mkdir(parents=True)
    (tmp_path / FOLDER / "votes.md").write_text(PAGE)
    record(tmp_path, 1, 0, 1)
    put(tmp_path, VOTES, make(tmp_path))
    return tmp_path


def test_a_table_is_made_between_its_markers_and_then_is_fresh(root: Path) -> None:
    text = (root / FOLDER / "votes.md").read_text()

    assert "made by `make evaluation-pages` -->\n\n| right | 2 |\n\n<!-- end -->\n\nBelow." in text
    assert stale(root, [VOTES]) == []
    assert differing(root, VOTES, make(root)) == []


def test_a_changed_record_is_found_without_making_its_table_again(root: Path) -> None:
    record(root, 1, 1, 1)

    assert stale(root, [VOTES]) == ["the records of votes are not those that its tables were made from"]
    assert differing(root, VOTES, make(root)) == ["votes.md#shares", "votes.svg"]


@pytest.mark.parametrize("name", ["votes.md", "votes.svg"])
def test_a_table_that_was_changed_by_hand_is_found(root: Path, name: str) -> None:
    path = root / FOLDER / name
    path.write_text(path.read_text().replace("2", "3"))

    [found] = stale(root, [VOTES])
    assert f"{FOLDER / name}" in found
    assert "is not as votes makes it" in found
    assert [one.partition("#")[0] for one in differing(root, VOTES, make(root))] == [name]


def test_a_quick_work_is_made_again_so_that_another_rule_is_found(root: Path) -> None:
    other = {"votes.md#shares": "| right | 2 of 3 |\n", "votes.svg": "<svg>2</svg>"}
    quick = Work(name="votes", records=VOTES.records, makes=VOTES.makes, make=lambda _: other, is_quick=True)

    assert stale(root, [quick]) == [f"{FOLDER / 'votes.md#shares'} is not as votes makes it"]


def test_what_is_written_around_a_table_is_no_part_of_it(root: Path) -> None:
    path = root / FOLDER / "votes.md"
    path.write_text(path.read_text().replace("Below.", "Other words."))

    assert stale(root, [VOTES]) == []


def test_a_work_that_was_never_made_and_a_page_without_its_markers_are_found(root: Path) -> None:
    other = Work(name="other", records=(), makes=("votes.md#other",), make=lambda _: {"votes.md#other": "x"})

    assert len(stale(root, [other])) == 2
    with pytest.raises(ValueError, match=r"votes\.md needs '<!-- other: made by"):
        put(root, other, {"votes.md#other": "x"})


def test_the_tables_of_the_repository_are_those_that_were_made() -> None:
    assert stale(ROOT, WORKS) == []


def test_records_of_the_repository_have_no_wording_and_are_small() -> None:
    files = [path for path in (ROOT / FOLDER).rglob("*.gz")]

    assert sum(path.stat().st_size for path in files) <= 10 * 1024**2
    for path in files:
        for line in gzip.decompress(path.read_bytes()).splitlines():
            assert not {"question", "context", "choices", "prompt"} & json.loads(line).keys()


def test_a_head_states_items_power_model_cost_and_claims(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    (folder / "recorded").mkdir(parents=True)
    for name, items in (("a", 24), ("b", 96)):
        lines = [{"id": str(number), "answers": {}} for number in range(items)]
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [{"kind": "recording"}, *lines])
        (folder / "recorded" / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "shown.md").write_text(f"# Shown\n\n{heads.BEGIN}\n{heads.END}\n\n| gain | 0.1 [0.05, 0.2] |\n")
    row = {
        "paper": "MSV",
        "claim": "it gains",
        "where": "1",
        "page": "shown.md",
        "line": "| gain",
        "claimed": "above 0",
    }
    (tmp_path / ROWS).write_text(yaml.safe_dump([{**row, "measure": "gain", "items": 24, "command": "c"}]))
    about = {"records": "recorded", "of": " questions", "model": "a small one", "cost": "9 calls"}
    (tmp_path / heads.PAGES).write_text(yaml.safe_dump({"shown.md": about}))

    [made] = heads.pages(tmp_path, {}).values()

    assert "- **Items**: 120 questions\n" in made
    assert "a gain of 8.2 to 16.3 points" in made  # 1.96 * sqrt(1 / 6 / items): .082 of 96, .163 of 24
    assert "- **Model**: a small one\n- **Cost**: 9 calls\n- **Claims of the papers**: 1 holds ([what holds]" in made
