"""The last runs whose requests had an identifier are held until they are certainly found in the database."""

from collections import OrderedDict

import orjson

from chassis.serving.stored import from_stored
from services.router.service.runs.values import Run

Name = tuple[str, str]


class RecentRuns:
    """These runs are held as documents, so that their size is known; the oldest is dropped first.

    Args:
        max_bytes: Size of all documents [bytes]; the newest run is held whatever its size.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._runs: OrderedDict[Name, tuple[int, bytes]] = OrderedDict()
        self._bytes = 0
        self._last_dropped = 0

    @property
    def size_bytes(self) -> int:
        """Return the size of the documents [bytes, >= 0]."""
        return self._bytes

    @property
    def last_dropped(self) -> int:
        """Return the highest number of a run that was dropped for lack of room; 0 before there was one."""
        return self._last_dropped

    def add(self, name: Name, document: bytes, number: int) -> None:
        """Hold the run that answered a request.

        Args:
            name: Name of the API key, and identifier of the request.
            document: The run as JSON.
            number: Its place among all recorded runs [>= 1].
        """
        if name in self._runs:
            self._bytes -= len(self._runs.pop(name)[1])
        self._runs[name] = (number, document)
        self._bytes += len(document)
        while self._bytes > self._max_bytes and len(self._runs) > 1:
            _, (dropped, old) = self._runs.popitem(last=False)
            self._bytes -= len(old)
            self._last_dropped = max(self._last_dropped, dropped)

    def find(self, name: Name) -> Run | None:
        """Return the run that answered a request; None where it is not held."""
        held = self._runs.get(name)
        if held is None:
            return None
        document = orjson.loads(held[1])
        return from_stored(document, Run, record="run", record_id=document["run_id"])
