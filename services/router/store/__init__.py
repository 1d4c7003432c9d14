"""The stores keep the router's data in PostgreSQL: a module for each noun of `service`, and a transaction a method."""
