"""The router's schema in PostgreSQL: one module a table or two that belong together, one transaction a method."""
