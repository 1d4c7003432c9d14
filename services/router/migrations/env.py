"""Alembic environment of the router."""

from chassis.migration import run_migrations
from services.router.store import Base

run_migrations(Base.metadata)
