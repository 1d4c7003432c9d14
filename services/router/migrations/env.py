"""Alembic environment of the router."""

from chassis.migration import run_migrations
from services.router.store import runs
from services.router.store.tables import Base

TABLES = (runs,)  # a module's tables are known once it is imported

run_migrations(Base.metadata)
