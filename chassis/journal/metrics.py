"""The journal exposes these Prometheus metrics."""

from prometheus_client import Counter, Gauge

JOURNAL_QUEUED = Gauge("metacog_journal_queue", "Runs, or stored calls, waiting in memory to be recorded.")
JOURNAL_QUEUED_BYTES = Gauge("metacog_journal_queue_bytes", "Their size.")
JOURNAL_SPOOLED = Gauge("metacog_journal_spool_bytes", "Their bytes waiting on disk for the database.")
JOURNAL_UNSETTLED = Counter(
    "metacog_journal_unsettled_total", "Those that a durable journal could not put on disk before their answers ended."
)
JOURNAL_REJECTED = Counter("metacog_journal_rejected_total", "Those that the database will never take, set aside.")
JOURNAL_REJECTED_REMOVED = Counter(
    "metacog_journal_rejected_removed_total",
    "Those set aside that were removed, since their files are bounded.",
)
JOURNAL_LOST = Counter("metacog_journal_lost_total", "Those that could be stored neither in the database nor on disk.")
