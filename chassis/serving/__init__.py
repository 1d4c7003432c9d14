"""This package serves the REST and gRPC APIs that every service has."""
