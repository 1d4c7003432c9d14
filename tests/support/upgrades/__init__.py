"""What the next version of metacog stores, and how it changes a schema."""
