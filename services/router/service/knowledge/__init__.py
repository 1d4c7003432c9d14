"""The knowledge base holds documents that were added and verified answers, found by their meaning."""
