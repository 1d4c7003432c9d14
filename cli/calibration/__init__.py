"""The commands that fit parameters to recorded feedback: calibrate (activation) and fit-roles (role weights)."""
