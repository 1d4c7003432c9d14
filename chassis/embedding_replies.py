"""What an embeddings server answers, read."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from chassis.inference.transport import HttpReply

Vectors = np.ndarray[tuple[int, int], np.dtype[np.float32]]

# Statuses of a server that may answer the same request later.
BUSY = frozenset({429, 502, 503, 504})

# What reading a reply of another form than expected may raise.
_OTHER_FORM = (ValueError, LookupError, TypeError, AttributeError)


def read_vectors(body: bytes, count: int) -> Vectors | None:
    """Vectors in the order of their texts, given as lists of numbers or as base64 of 32-bit floats.

    Returns:
        `count` rows of one length, all finite; None when the body holds anything else.
    """
    try:
        data = sorted(orjson.loads(body)["data"], key=lambda each: int(each["index"]))
        vectors = np.array([_vector(each["embedding"]) for each in data], dtype=np.float32)
    except _OTHER_FORM:
        return None
    if vectors.ndim != 2 or len(vectors) != count or not vectors.size or not np.isfinite(vectors).all():
        return None
    made: Vectors = vectors
    return made


def _vector(given: Any) -> Any:  # noqa: ANN401 - a list of numbers, or what stands for one
    return np.frombuffer(base64.b64decode(given), dtype="<f4") if isinstance(given, str) else given


def read_models(body: bytes) -> Sequence[str]:
    """Names of the models that a server lists; none when the body holds anything else."""
    try:
        return [str(model["id"]) for model in orjson.loads(body)["data"]]
    except _OTHER_FORM:
        return []


def error_words(body: bytes) -> str:
    """What a refusal says, on one line of at most 200 characters."""
    try:
        said = str(orjson.loads(body)["error"]["message"])
    except _OTHER_FORM:
        said = body.decode(errors="replace")
    return " ".join(said.split())[:200]


def retry_after_s(reply: HttpReply) -> float:
    """How long a server asks to wait [s, >= 0]; 0 when it does not say so in seconds."""
    told = reply.headers.get("retry-after", "")
    return float(told) if told.isdigit() else 0.0
