"""The last documents that answered requests with an identifier are held, by which a repetition is recognised."""

from collections import OrderedDict

Name = tuple[str, str]


class RecentDocuments:
    """These documents are held as JSON, so that their size is known; the oldest is dropped first.

    Args:
        max_bytes: Size of all documents [bytes]; the newest one is held whatever its size.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._documents: OrderedDict[Name, tuple[int, bytes]] = OrderedDict()
        self._bytes = 0
        self._last_dropped = 0

    @property
    def size_bytes(self) -> int:
        """Return the size of the documents [bytes, >= 0]."""
        return self._bytes

    @property
    def last_dropped(self) -> int:
        """Return the highest number of a document that was dropped for lack of room; 0 before there was one."""
        return self._last_dropped

    def add(self, name: Name, document: bytes, number: int = 0) -> None:
        """Hold the document that answered a request.

        Args:
            name: Name of the API key, and identifier of the request.
            document: The document as JSON.
            number: Its place among all that were recorded [>= 1]; 0 where it is not used.
        """
        self.drop(name)
        self._documents[name] = (number, document)
        self._bytes += len(document)
        while self._bytes > self._max_bytes and len(self._documents) > 1:
            _, (dropped, old) = self._documents.popitem(last=False)
            self._bytes -= len(old)
            self._last_dropped = max(self._last_dropped, dropped)

    def drop(self, name: Name) -> None:
        """Hold the document that answered a request no longer, if it is held."""
        if name in self._documents:
            self._bytes -= len(self._documents.pop(name)[1])

    def find(self, name: Name) -> bytes | None:
        """Return the document that answered a request; None where it is not held."""
        held = self._documents.get(name)
        return None if held is None else held[1]
