"""The supervisor of the suite's processes: their specifications, their pid files and the state that it reports."""
