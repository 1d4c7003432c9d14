"""Delegation: agents that know what they cannot do, hand it over, and learn."""
