"""The mathematics of arbitration: distributions, their measures, when to stop, and how claims are traced. Pure."""
