"""This package serves the APIs of model servers and providers on the router: OpenAI's, and what goes with it."""
