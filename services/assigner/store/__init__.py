"""The store keeps the calls of the assigner in PostgreSQL."""
