"""The commands that answer or decide (ask, route, assign, arbitrate, delegate, batch) and the drawing of results."""
