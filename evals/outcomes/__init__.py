"""The router scored on recorded outcomes of a weak and a strong model; neither is called."""
