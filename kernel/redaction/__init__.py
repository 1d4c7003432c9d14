"""Redaction leaves numbers, decisions and names of what is stored, where contents are not."""
