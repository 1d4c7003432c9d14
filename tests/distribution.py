"""How tests are divided among processes: those of a file run in one, so that the parts that they share start once.

The groups of pytest-xdist 3.8 would do, but with pytest 9.2 they are ignored: each test is then a group of its own.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# The tests of this folder share the suite that `make up` starts.
END_TO_END = "tests/e2e"
# Where files take longest: they begin first, so that no process has one left when the others have nothing to do.
LONG_FOLDERS = (END_TO_END, "tests/faults", "tests/browser", "tests/compose", "tests/integration")


class Files(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """This gives a process the tests of a whole file, and those of `e2e` to one process, in the order of collection."""

    def _split_scope(self, nodeid: str) -> str:
        return END_TO_END if _is_in(END_TO_END, nodeid) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Files:
    """Divide the tests by files."""
    config.option.loadscopereorder = False
    return Files(config, log)


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests: those of long folders come first, otherwise their order stays."""
    items.sort(key=lambda item: [_is_in(folder, item.nodeid) for folder in LONG_FOLDERS], reverse=True)


def _is_in(folder: str, nodeid: str) -> bool:
    return nodeid.startswith(f"{folder}/")
