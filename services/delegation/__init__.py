"""The delegation service: agents assess themselves, delegate tasks to better ones, and learn from outcomes."""
