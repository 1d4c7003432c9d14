"""Geometry of the console's pictures: pure functions from plain data to coordinates; templates draw them as SVG."""
