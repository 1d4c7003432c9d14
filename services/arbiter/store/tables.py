"""The arbiter has one table: the arbitrations and votes that were asked for by themselves."""

from chassis.calls.store import calls_table

SCHEMA = "arbiter"
CALLS = calls_table(SCHEMA)
