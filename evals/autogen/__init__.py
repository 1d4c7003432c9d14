"""AutoGen as a baseline, by its real package in an environment of its own: its dependencies exclude some of ours."""
