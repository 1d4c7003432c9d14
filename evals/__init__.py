"""Evaluation: items, scorers, statistics and reports; a client of the running suite."""
