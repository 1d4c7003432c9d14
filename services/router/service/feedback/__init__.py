"""Feedback on answers is stored, and delivered to those who learn from it."""
