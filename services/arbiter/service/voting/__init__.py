"""The use case of a vote: sources are asked one after another until enough answers agree."""
