"""The disk holds documents that wait for the store; its thread is not shared with what computes for callers."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from chassis.journal.spool import Spool

P = ParamSpec("P")
T = TypeVar("T")

# Time that the disk gets for a batch before it counts as hung [s].
WITHIN_S = 10.0


class Disk:
    """The disk reads and writes a spool in its thread, in the order in which that is requested.

    Args:
        path: The file.
        max_bytes: Its largest size [bytes].
        within_s: Time that a batch may take [s].
    """

    def __init__(self, path: Path, max_bytes: int, within_s: float = WITHIN_S) -> None:
        self.path = path
        self._spool = Spool(path, max_bytes)
        self._within_s = within_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._putting: Future[list[bytes]] | None = None

    def size(self) -> int:
        """Return the size of what waits [bytes, >= 0]; 0 where the file cannot be used."""
        try:
            return self._spool.size()
        except OSError:
            return 0

    async def put(self, documents: Sequence[bytes]) -> list[bytes]:
        """Append documents to the file, and return those that had no room.

        Those of a call that was cut short may be in the file or not. A next call waits until that is decided, so a disk
        that hangs holds one batch at most.

        Raises:
            OSError: When the disk fails, or takes too long.
        """
        try:
            async with asyncio.timeout(self._within_s):
                if self._putting is not None:
                    await asyncio.wait([asyncio.wrap_future(self._putting)])
                self._putting = self._thread.submit(self._spool.put, documents)
                return await asyncio.wrap_future(self._putting)
        except TimeoutError:
            raise OSError(f"no answer of the disk within {self._within_s:g} s") from None

    async def read(self) -> list[bytes]:
        """Return the first lines that wait, with their line ends.

        Raises:
            OSError: When the disk fails.
        """
        return await self.run(self._spool.read)

    async def drop(self, count: int) -> None:
        """Drop the first `count` bytes that wait.

        Raises:
            OSError: When the disk fails.
        """
        await self.run(self._spool.drop, count)

    async def run(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return what `work` returns, in the thread of the disk."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *args, **named))
