from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("kernel", "chassis", "services", "console", "cli")
MOST_LINES = 350


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_file_can_be_read_at_a_sitting(folder: str) -> None:
    lines = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in (ROOT / folder).rglob("*.py")}

    assert lines
    assert {file: count for file, count in lines.items() if count > MOST_LINES} == {}
