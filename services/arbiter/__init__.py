"""The arbiter settles disagreement between solvers, and measures how the information moves."""
