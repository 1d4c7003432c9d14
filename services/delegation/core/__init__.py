"""The pure decisions of delegation that are its own: short-list, routine filter, keywords, flows, categories."""
