"""This package turns calls into requests, and the replies into samples."""
