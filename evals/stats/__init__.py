"""Statistics that only evaluations need; pure: chance is passed in. `kernel.statistics` has the shared ones."""
