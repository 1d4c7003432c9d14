"""Each prompt of the router is one file and one typed function."""

from collections.abc import Sequence

from chassis.prompts import Prompt, quoted, render

_HERE = __name__


def rating(*, conversation: str) -> Prompt:
    """Ask a model to rate the answer it would give, and the request itself."""
    return render(_HERE, "rating", {"conversation": quoted("conversation", conversation)})


def importance(*, conversation: str) -> Prompt:
    """Ask a model how important the request is."""
    return render(_HERE, "importance", {"conversation": quoted("conversation", conversation)})


def probe() -> Prompt:
    """Ask a model for its answer at once; stands at the end of the conversation."""
    return render(_HERE, "probe", {})


def check() -> Prompt:
    """Ask a model whether the answer that it just gave is right."""
    return render(_HERE, "check", {})


def formatted(*, answer: str) -> Prompt:
    """Ask a model to write an answer in the client's format; stands at the end of the conversation."""
    return render(_HERE, "formatted", {"answer": quoted("answer", answer)})


def sources(*, passages: Sequence[str]) -> Prompt:
    """Give a model passages of documents, numbered from 1, as data."""
    return render(_HERE, "sources", {"sources": [quoted("source", passage) for passage in passages]})
