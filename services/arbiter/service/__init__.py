"""The use cases of the arbiter arbitrate, measure and replay, over the pure mathematics of its core."""
