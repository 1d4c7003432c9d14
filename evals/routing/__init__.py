"""The router's own evaluation: does its activation predict that System 1 will be wrong, and what does knowing cost?"""
