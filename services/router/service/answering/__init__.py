"""Answering: admission, strategies, fallback and the run of a request."""
