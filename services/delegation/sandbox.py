"""This module gives the sandbox the switch and the errors of this service."""

import asyncio

from sandbox import CodeSandbox, SandboxUnavailable
from services.delegation.service.result_merger import Tested


class Sandbox:
    """The sandbox runs untrusted code that a model wrote, in a process without access to files and network.

    Args:
        enabled: Whether code may be run at all.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._locked = CodeSandbox()

    def check(self) -> None:
        """Return if the sandbox can be used.

        Raises:
            SandboxUnavailable: When it is off or missing; states the reason.
        """
        if not self._enabled:
            raise SandboxUnavailable("unit tests are switched off; METACOG_DELEGATION_SANDBOX=true switches them on")
        problem = self._locked.problem()
        if problem:
            raise SandboxUnavailable(f"this system has no sandbox for unit tests: {problem}")

    async def ready(self) -> None:
        """Run `check` in a thread."""
        await asyncio.to_thread(self.check)

    async def run(self, code: str, tests: str, *, timeout_s: float) -> Tested:
        """Run `code`, then `tests`, which raise when it is wrong, for at most `timeout_s` [s]."""
        result = await self._locked.run(code, tests, timeout_s=timeout_s)
        return Tested(passed=result.passed, detail=result.detail, is_compared=result.is_compared)
