"""The pages name one another, and only what is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Heads of generated pages have their links checked where they end up.
CHECKED = [page for page in PAGES if ".head." not in page.name]


def anchors(page: Path) -> set[str]:
    """What can be jumped to in a page, as the usual renderers spell it."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", CHECKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text())
    lost = []
    for link in dict.fromkeys(links):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)

    assert lost == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())
        targets = [(page.parent / link).resolve() for link in links]
        waiting += [target for target in targets if target.suffix == ".md" and target.exists()]

    missed = [page for page in CHECKED if page not in reached and page.parent.name != "adr"]
    assert missed == []
