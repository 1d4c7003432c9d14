"""Alembic environment of the router."""

from chassis.database import run_migrations
from services.router.store import feedback_tables, knowledge_tables, runs
from services.router.store.tables import RouterTable

TABLES = (feedback_tables, knowledge_tables, runs)  # a module's tables are known once it is imported

run_migrations(RouterTable.metadata)
