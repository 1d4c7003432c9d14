"""Scorers: is an answer right? Pure."""
