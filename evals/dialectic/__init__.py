"""The dialectic: how the state moves from stage to stage, and whether the answer gets better by it."""
