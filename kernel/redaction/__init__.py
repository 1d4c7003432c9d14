"""Redaction leaves names and codes of reasons of the texts that are stored, where contents are not."""
