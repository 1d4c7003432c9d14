"""Evaluation: tasks, scorers and statistics; a client of the suite. Empty until there are strategies to compare."""
