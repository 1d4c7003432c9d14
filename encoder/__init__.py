"""The sentence encoder serves sentence-transformers as OpenAI's `/v1/embeddings`, in a process of its own."""
