"""Redaction follows from the contract: each field with text states what it holds."""
