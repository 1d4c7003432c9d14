"""The check of migrations finds those after which the version before would fail."""

from pathlib import Path

import pytest

from checks.migrations import removals, unmarked

UPGRADE = "from alembic import op\n\ndef upgrade():\n    {}\n\ndef downgrade():\n    op.drop_column('runs', 'a')\n"


@pytest.mark.parametrize(
    "statement",
    [
        "op.drop_column('runs', 'answer')",
        "op.drop_table('runs')",
        "op.alter_column('runs', 'answer', nullable=False)",
        "op.add_column('runs', sa.Column('answer', sa.String(), nullable=False))",
        "op.execute('ALTER TABLE router.runs DROP COLUMN answer')",
    ],
)
def test_what_earlier_code_uses_or_does_not_write_is_found(statement: str) -> None:
    assert len(removals(UPGRADE.format(statement))) == 1
    assert removals('WORKS_FROM = "0002"\n' + UPGRADE.format(statement)) == []


@pytest.mark.parametrize(
    "statement",
    [
        "op.add_column('runs', sa.Column('answer', sa.String()))",
        "op.add_column('runs', sa.Column('answer', sa.String(), nullable=False, server_default=''))",
        "op.create_table('notes')",
        "op.create_index('ix', 'runs', ['answer'])",
        "op.execute('UPDATE router.runs SET answer = 1')",
    ],
)
def test_what_only_adds_is_allowed(statement: str) -> None:
    assert removals(UPGRADE.format(statement)) == []


def test_the_first_migration_of_a_service_is_not_looked_at(tmp_path: Path) -> None:
    versions = tmp_path / "services/router/migrations/versions"
    versions.mkdir(parents=True)
    for name in ("0001_initial", "0002_answers"):
        (versions / f"{name}.py").write_text(UPGRADE.format("op.drop_table('runs')"))

    assert list(unmarked(tmp_path)) == ["services/router/migrations/versions/0002_answers.py"]
