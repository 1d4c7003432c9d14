"""Delegation's decisions, pure: confidence, Algorithm 1, votes, learning, drift, trust."""
