"""Assessment: the state of a question, and the choice of system."""
