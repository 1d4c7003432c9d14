"""This package sends HTTP requests to one backend, with retries, a circuit breaker and deadlines."""
