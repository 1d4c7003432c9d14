"""Use cases of the assigner."""
