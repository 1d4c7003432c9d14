"""`make evaluation-pages` makes the tables of docs/evaluation from records, or by commands that ask no model."""
