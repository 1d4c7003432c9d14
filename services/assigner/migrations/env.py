"""Alembic runs the migrations of the assigner in this environment."""

from chassis.schema.migrations import run_migrations
from services.assigner.store.tables import CALLS

run_migrations(CALLS.metadata)
