"""The pure values of the dialectic."""
