"""Alembic runs the migrations of the delegation service in this environment."""

from chassis.database import run_migrations
from services.delegation.store.tables import DelegationTable

run_migrations(DelegationTable.metadata)
