"""The sentence encoder: sentence-transformers behind OpenAI's `/v1/embeddings`, in a process of its own."""
