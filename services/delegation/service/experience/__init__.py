"""The experience of an agent is the questions that it answered right."""
