"""Clients that mean harm."""
