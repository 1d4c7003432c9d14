"""Arbiter: settles disagreement, and measures how the information moved."""
