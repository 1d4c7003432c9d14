"""Model servers for tests: scripted ones, small real ones, and simulated agents."""
