"""Weights of the roles' fitness, learned from deliberations whose answers were judged.

Source: SPEC 1.6 names it as the paper's future work; the method is ours.
"""
