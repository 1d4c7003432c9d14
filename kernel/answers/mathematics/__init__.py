"""Answers that are mathematics: their normalised form, the bounds on what is worked on, and when two mean the same."""
