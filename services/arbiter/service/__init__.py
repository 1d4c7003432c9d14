"""What the arbiter does: arbitrate, measure and replay, over the pure mathematics of its core."""
