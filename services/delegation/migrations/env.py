"""Alembic runs the migrations of the delegation service in this environment."""

from chassis.schema.migrations import run_migrations
from services.delegation.store.tables import DelegationTable

run_migrations(DelegationTable.metadata)
