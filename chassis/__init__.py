"""This package holds what every service needs: serving, settings, telemetry, database and background workers."""
