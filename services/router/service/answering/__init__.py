"""This package answers requests: admission, strategies, fallback and the run of a request."""
