"""The check of citations finds sections that do not exist, documents that are not here, sources without a section."""

from pathlib import Path

import pytest

from checks.citations import unresolved

ROOT = Path(__file__).parents[3]
PAGE = "# Papers\n\n## 1 First\n\n### 1.1 State\n\n### 1.2 Routing\n"


def write(root: Path, name: str, text: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_every_citation_of_this_repository_resolves() -> None:
    assert unresolved(ROOT) == {}


@pytest.mark.parametrize(
    ("name", "line", "complaint"),
    [
        ("kernel/a.py", "# See papers.md 1.3.", "line 1: docs/papers.md has no section 1.3"),
        ("proto/a.proto", "// As in papers.md 1.1, 9.1 and 1.2.", "line 1: docs/papers.md has no section 9.1"),
        ("tests/a.py", '"""SPEC 1.1."""', "line 1: names a document that is not in the repository"),
        (
            "services/router/prompts/a.md",
            "DESIGN, One request",
            "line 1: names a document that is not in the repository",
        ),
        ("kernel/a.py", '"""A.\n\nSource: Wilson 1927.\n"""', "line 3: the source names no section of docs/papers.md"),
        ("kernel/a.py", '"""A.\n\n    Source:\n        Ours.\n    """', "line 3: the source names no section"),
        ("inference/a.py", '"""A.\n\nSource: somewhere.\n"""', "line 3: the source names no section"),
    ],
)
def test_a_citation_that_leads_nowhere_is_found_with_its_line(
    tmp_path: Path, name: str, line: str, complaint: str
) -> None:
    write(tmp_path, "docs/papers.md", PAGE)
    write(tmp_path, name, line)

    [[found]] = unresolved(tmp_path).values()

    assert found.startswith(complaint)


def test_sections_that_exist_and_published_works_outside_the_deciding_code_are_sources(tmp_path: Path) -> None:
    write(tmp_path, "docs/papers.md", PAGE)
    write(tmp_path, "kernel/a.py", '"""A.\n\n    Source:\n        Ours (papers.md 1.1, 1.2).\n    """')
    write(tmp_path, "inference/b.py", '"""B.\n\nSource: the WHATWG HTML standard.\n"""')

    assert unresolved(tmp_path) == {}
