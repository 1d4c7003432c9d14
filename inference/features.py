"""This module learns the abilities of a backend from its replies."""

import logging
import re
from collections.abc import Sequence
from dataclasses import fields, replace

from kernel.values import value

log = logging.getLogger(__name__)


@value
class Features:
    """Features are the abilities of one backend; None where they are unknown.

    Attributes:
        samples_per_call: Largest `n` it serves in one request; None: no limit met.
        logprobs: Whether it reports log-probabilities.
        usage_totals: Whether usage counts all samples of a request; llama.cpp counts one of them.
        schema: Whether it follows a JSON schema.
        tools: Whether it calls tools.
        images: Whether it reads images.
    """

    samples_per_call: int | None = None
    logprobs: bool | None = None
    usage_totals: bool | None = None
    schema: bool | None = None
    tools: bool | None = None
    images: bool | None = None


_RANGE = re.compile(r"'n'.*?1 <= value <= (\d+)")
_AT_MOST = re.compile(r"\bn['\"`]?\b.{0,40}?at most (\d+)")
_ONLY_ONE = re.compile(r"\bn['\"`]?( ?> ?1)? (is|are) (not supported|unsupported)")
_NOT_SUPPORTED = re.compile(r"not support|unsupported|unknown (field|param)|unrecognized", re.IGNORECASE)


def samples_limit(message: str) -> int | None:
    """Return the largest `n` that an error about `n` names.

    Example:
        >>> samples_limit("Field 'n': Value must be between 1 <= value <= 4, but got 5")
        4
    """
    named = _RANGE.search(message) or _AT_MOST.search(message)
    if named:
        return max(1, int(named.group(1)))
    return 1 if _ONLY_ONE.search(message) else None


def denied_features(message: str) -> Features | None:
    """Return the features that an error message denies; None if it denies none."""
    limit = samples_limit(message)
    if limit is not None:
        return Features(samples_per_call=limit)
    if not _NOT_SUPPORTED.search(message):
        return None
    if "logprobs" in message:
        return Features(logprobs=False)
    if "response_format" in message or "json_schema" in message:
        return Features(schema=False)
    return None


def usage_counts_all(lengths: Sequence[int], reported: int) -> bool | None:
    """Return whether usage counts every sample, from their lengths by log-probabilities; None where it is unclear.

    Example:
        >>> usage_counts_all([40, 40], 80), usage_counts_all([40, 40], 40), usage_counts_all([1, 0], 1)
        (True, False, None)
    """
    # An end-of-sequence token may be counted and have no log-probability of its own.
    if sum(lengths) <= max(lengths) + 1:
        return None
    return reported >= sum(lengths)


class LearnedFeatures:
    """Learned features change as the abilities of one backend become known; each change is logged once."""

    def __init__(self, backend: str, known: Features) -> None:
        self.backend = backend
        self.now = known

    def learn(self, observed: Features) -> None:
        """Add what `observed` knows; a smaller limit on samples wins."""
        for name in _NAMES:
            fact, known = getattr(observed, name), getattr(self.now, name)
            if name == "samples_per_call" and fact is not None and known is not None:
                fact = min(fact, known)
            if fact is not None and fact != known:
                self.now = replace(self.now, **{name: fact})
                log.info("backend %s: %s is %s", self.backend, name, fact)


_NAMES = tuple(field.name for field in fields(Features))
