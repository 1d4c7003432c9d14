"""The router's prompts: one file and one typed function each."""

from chassis.prompts import Prompt, quoted, render

_HERE = __name__


def rating(*, conversation: str) -> Prompt:
    """Ask a model to rate the answer it would give, and the request itself."""
    return render(_HERE, "rating", {"conversation": quoted("conversation", conversation)})
