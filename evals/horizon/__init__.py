"""Long-horizon tasks: many steps, each on the result of the one before, whose end state can be checked."""
