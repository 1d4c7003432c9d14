"""The `metacog` command: a client of the suite, and the way to run it on one machine."""
