"""Calls are passed on to model servers as they came, and recorded."""
