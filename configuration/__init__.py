"""This package reads the configuration files that a user may write."""
