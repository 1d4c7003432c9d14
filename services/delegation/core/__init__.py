"""The core makes pure decisions of delegation alone: short-list, routine filter, keywords, flows, categories."""
