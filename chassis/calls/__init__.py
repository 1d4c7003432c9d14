"""A service stores the calls that it answers by itself, not as part of a run of the router, and returns them later."""
