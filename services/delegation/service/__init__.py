"""The use cases of the delegation service."""
