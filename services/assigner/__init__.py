"""Assigner: who plays which role, and the five-role dialectic."""
