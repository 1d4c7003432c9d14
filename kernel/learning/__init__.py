"""Learning fits the weights of the roles' fitness to labelled deliberations, and profiles and trust to labelled tasks.

Source: MSV, future work (papers.md 1.6) and MetaCogAgent Eq. 4 (papers.md 3.4); most methods are ours.
"""
