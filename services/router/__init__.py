"""The router decides how hard to think, and is the OpenAI-compatible gateway."""
