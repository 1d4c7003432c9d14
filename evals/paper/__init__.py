"""All tables of one paper by one command: which evaluations make them, and what these take."""
