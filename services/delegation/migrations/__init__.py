"""This package holds the Alembic migrations of the delegation service's schema."""
