"""The assigner has one table: the deliberations that were asked for by themselves."""

from chassis.calls.store import calls_table

SCHEMA = "assigner"
CALLS = calls_table(SCHEMA)
