"""PostgreSQL with pgvector from a package: the server, its account and its files."""

from embedded.postgres.server import start, stop

__all__ = ["start", "stop"]
