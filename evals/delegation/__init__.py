"""Delegation against its baselines and ablations, and the tables of the MetaCogAgent paper.

Every agent rates itself on every task once, and solves it once. From that the procedure, its ablations and any numbers
can be replayed without a model call, all on the same answers.
"""
