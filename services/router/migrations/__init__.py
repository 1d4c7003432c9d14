"""Alembic migrations of the router's schema."""
