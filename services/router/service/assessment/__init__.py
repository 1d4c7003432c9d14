"""This package assesses the state of a question, and chooses the system."""
