"""The core chooses between System 1 and System 2 by a metacognitive state; it is pure."""
