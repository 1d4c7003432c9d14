"""This package holds the use cases of the assigner."""
