"""`metacog eval paper` makes all tables of a paper by the other commands of `metacog eval`."""
