"""The store keeps the calls of the arbiter in PostgreSQL."""
