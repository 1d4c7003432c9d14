"""What every service stands on: serving, settings, telemetry, channels, database, and the inference client."""
