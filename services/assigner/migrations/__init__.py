"""This package holds the Alembic migrations of the assigner's schema."""
