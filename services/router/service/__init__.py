"""Use cases of the router."""
