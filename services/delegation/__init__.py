"""The delegation service lets agents assess themselves, delegate tasks to better ones, and learn from outcomes."""
