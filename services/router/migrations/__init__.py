"""This package holds the Alembic migrations of the router's schema."""
