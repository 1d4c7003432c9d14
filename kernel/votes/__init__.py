"""Votes are independent answers to one question: when to stop asking, who wins, and how probably it is right."""
