"""The `metacog` command is a client of the suite, and runs it on one machine."""
