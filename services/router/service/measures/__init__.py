"""What can be measured of a query before, or as, it is answered: one module a source of evidence."""
