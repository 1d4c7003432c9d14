"""Alembic runs the migrations of the router in this environment."""

from chassis.schema.migrations import run_migrations
from services.router.store import calibration, feedback_tables, knowledge_tables, promise_labels, runs
from services.router.store.batches import tables as batch_tables
from services.router.store.tables import RouterTable

TABLES = (
    batch_tables,
    calibration,
    feedback_tables,
    knowledge_tables,
    promise_labels,
    runs,
)  # importing a module declares its tables

run_migrations(RouterTable.metadata)
