"""Files and batches are stored in PostgreSQL."""
