"""Embedded mode runs the suite on one machine without Docker: PostgreSQL, llama.cpp and the services, supervised."""
