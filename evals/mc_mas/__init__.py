"""Arbitration against its controls, and the tables of the MC-MAS paper, mostly replayed from recorded samples."""
