"""The recorder keeps what the services and the command line answered before a large change, and compares it afterwards.

Run as `python -m tests.recorded`; `record` makes a recording, `replay` compares a checkout with one.
"""
