"""The geometry of the console's charts: pure functions from data to coordinates, which the templates draw as SVG."""
