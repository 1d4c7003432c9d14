"""This package holds the Alembic migrations of the arbiter's schema."""
