"""The core holds the pure values of the dialectic."""
