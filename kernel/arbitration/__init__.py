"""Arbitration (MC-MAS) takes the answer that most arbitration samples give; this package has its mathematics."""
