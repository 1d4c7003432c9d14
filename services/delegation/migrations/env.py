"""The Alembic environment of the delegation service."""

from chassis.database import run_migrations
from services.delegation.store.tables import DelegationTable

run_migrations(DelegationTable.metadata)
