"""Profiles, tasks, verdicts and what was learned, in PostgreSQL."""
