"""From a metacognitive state to System 1 or System 2. Pure."""
