"""The arbiter service: it settles disagreement between solvers, and measures how the information moves."""
