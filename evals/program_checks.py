"""Programs are judged by running them in the sandbox, against their item's tests."""

from collections.abc import Mapping
from typing import Any

from evals.errors import NotInstalled
from evals.items import Item
from kernel.answers import AnswerType, extract
from sandbox import CodeSandbox

TEST_TIMEOUT_S = 5.0


class ProgramChecker:
    """Runs the programs that arms wrote; the sandbox is tried on construction.

    Raises:
        NotInstalled: On construction, when this system has no sandbox: programs are run nowhere else.
    """

    def __init__(self) -> None:
        self._locked = CodeSandbox()
        problem = self._locked.problem()
        if problem:
            message = f"this system has no sandbox to run programs in: {problem}; leave the sets with programs out"
            raise NotInstalled(message, package="sandbox")

    async def __call__(self, item: Item, texts: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the result of the program in each text: `passed`, and in `detail` what failed."""
        return {name: await self._checked(item, text) for name, text in texts.items()}

    async def _checked(self, item: Item, text: str) -> Mapping[str, Any]:
        code = extract(text, AnswerType.CODE)
        if code is None:
            return {"passed": False, "detail": "the text holds no program"}
        ran = await self._locked.run(code, program_tests(item), timeout_s=TEST_TIMEOUT_S)
        return {"passed": ran.passed, "detail": ran.detail}


def program_tests(item: Item) -> str:
    """The tests of `item`, with the call that runs them where they only define it (as HumanEval's do)."""
    tests = item.tests or ""
    calls = f"\ncheck({item.entry_point})\n" if item.entry_point and "def check(" in tests else ""
    return tests + calls
