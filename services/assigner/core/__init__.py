"""The mathematics of roles: fitness, the best assignment, and the rule of the watcher. Pure."""
