"""The stores of the delegation service in PostgreSQL."""
