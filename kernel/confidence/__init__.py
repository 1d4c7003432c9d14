"""Confidence decides who solves a task (delegation): this package has its rules, its decision and the vote."""
