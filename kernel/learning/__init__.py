"""Learning fits the weights of the roles' fitness to labelled deliberations, and profiles and trust to labelled tasks.

Source: SPEC 1.6 names it as the paper's future work; the method is ours.
"""
