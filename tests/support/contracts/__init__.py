"""Lists of what the contracts have, taken from their descriptors."""
