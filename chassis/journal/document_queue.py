"""Documents wait in memory in a queue that is bounded by number and by bytes."""

from collections.abc import Sequence


class DocumentQueue:
    """The queue holds documents in their order.

    Args:
        max_count: Documents that it may hold [count].
        max_bytes: Their size in all [bytes].
    """

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._documents: list[bytes] = []
        self._bytes = 0

    def __len__(self) -> int:
        """Return how many documents wait."""
        return len(self._documents)

    @property
    def size_bytes(self) -> int:
        """Return the size of what waits [bytes, >= 0]."""
        return self._bytes

    @property
    def is_over(self) -> bool:
        """Return whether it holds more than it may."""
        return len(self._documents) > self._max_count or self._bytes > self._max_bytes

    @property
    def is_filling(self) -> bool:
        """Return whether it holds more than half of what it may."""
        return 2 * len(self._documents) > self._max_count or 2 * self._bytes > self._max_bytes

    def append(self, document: bytes) -> None:
        """Add a document at the end; the caller shortens a queue that `is_over` then."""
        self._documents.append(document)
        self._bytes += len(document)

    def take(self, *, most_bytes: float, most: int | None = None) -> list[bytes]:
        """Remove the first documents, and return them: one at least where there is one.

        Args:
            most_bytes: Their size in all, unless the first one alone is larger [bytes].
            most: Their number; None: any [count].
        """
        taken, size = 0, 0
        for document in self._documents[:most]:
            if taken and size + len(document) > most_bytes:
                break
            taken, size = taken + 1, size + len(document)
        documents, self._documents = self._documents[:taken], self._documents[taken:]
        self._bytes -= size
        return documents

    def take_all(self) -> list[bytes]:
        """Remove all documents, and return them."""
        documents, self._documents, self._bytes = self._documents, [], 0
        return documents

    def put_back(self, documents: Sequence[bytes]) -> None:
        """Add documents in front, in their order."""
        self._documents = [*documents, *self._documents]
        self._bytes += sum(map(len, documents))

    def drop_oldest(self) -> int:
        """Remove the oldest documents until it holds no more than it may, and return how many these are [count]."""
        kept = len(self._documents)
        size = 0
        while kept and len(self._documents) - kept < self._max_count:
            if size + len(self._documents[kept - 1]) > self._max_bytes:
                break
            kept -= 1
            size += len(self._documents[kept])
        self._documents, self._bytes = self._documents[kept:], size
        return kept
