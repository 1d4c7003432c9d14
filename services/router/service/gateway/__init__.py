"""The gateway translates chat completions of the OpenAI API."""
