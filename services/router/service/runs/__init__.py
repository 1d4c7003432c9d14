"""Runs are recorded, found again, redacted where contents are not stored, and deleted when they are old."""
