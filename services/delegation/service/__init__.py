"""Use cases of the delegation service."""
