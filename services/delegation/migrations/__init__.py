"""The Alembic migrations of the delegation service's schema."""
