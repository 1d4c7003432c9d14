"""Answers of the running suite to questions with known answers, recorded once and then replayed."""
