"""The router's schema in PostgreSQL: each noun of `service` has its module, and each method is one transaction."""
