"""The commands that run and configure the suite: up, down, status, doctor, config and keys."""
