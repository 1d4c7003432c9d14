"""Mathematical answers have a normalised form, bounds on what is worked on, and an equality of their own."""
