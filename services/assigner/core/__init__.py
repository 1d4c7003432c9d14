"""What a dialectic is made of: pure values."""
