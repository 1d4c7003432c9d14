"""The router scored on recorded outcomes of two models: whom would it send to the strong one? Neither is called."""
