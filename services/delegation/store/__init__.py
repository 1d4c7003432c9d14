"""The stores keep the data of the delegation service in PostgreSQL."""
