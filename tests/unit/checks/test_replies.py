"""The check of replies finds what reads JSON beside the client, and templates that look up a key."""

from pathlib import Path

import pytest

from checks.__main__ import ROOT
from checks.replies import CLIENT, looked_up


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("console/replies", "console/templates"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("import orjson\n", "orjson"),
        ("from json import loads\n", "loads"),
        ("from chassis.json_text import loads\n", "loads"),
        ("from chassis.serving.wire import plain, word\n", "plain"),
        ("async def f(reply):\n    return await reply.json()\n", ".json()"),
    ],
)
def test_a_module_that_reads_json_beside_the_client_is_found(root: Path, source: str, read: str) -> None:
    (root / "console/runs.py").write_text(source)

    ((file, lines),) = looked_up(root).items()

    assert file == "console/runs.py"
    assert [line.partition(": ")[2].startswith(f"{read}: only") for line in lines] == [True]


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ('{% if run["promise"] %}{% endif %}', "['promise']"),
        ('<p>\n{{ run.get("cost") }}</p>', ".get('cost')"),
        ("{% for each in run.get('votes', []) %}{% endfor %}", ".get('votes')"),
    ],
)
def test_a_template_that_looks_up_a_literal_key_is_found(root: Path, template: str, key: str) -> None:
    (root / "console/templates/run.html").write_text(template)

    ((file, (line,)),) = looked_up(root).items()

    assert file == "console/templates/run.html"
    assert f": {key}: read the field" in line


def test_the_client_attributes_and_keys_that_vary_are_right(root: Path) -> None:
    (root / CLIENT).write_text("import orjson\n")
    (root / "console/pages.py").write_text("from chassis.serving.wire import word\nshown = page.json\n")
    (root / "console/templates/run.html").write_text(
        "{{ run.promise.state }}{{ reasons[name] }}{{ reasons.get(name, '') }}{{ stages[0] }}{{ digest[:12] }}"
    )

    assert looked_up(root) == {}


def test_the_console_reads_messages_only() -> None:
    assert looked_up(ROOT) == {}
