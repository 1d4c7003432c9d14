"""Alembic runs the migrations of the arbiter in this environment."""

from chassis.schema.migrations import run_migrations
from services.arbiter.store.tables import CALLS

run_migrations(CALLS.metadata)
