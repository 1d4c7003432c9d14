"""The whole suite on one machine, without Docker: PostgreSQL, llama.cpp and the services under one supervisor."""
