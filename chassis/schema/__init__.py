"""A schema is migrated in time, and names the versions whose code works with it."""
