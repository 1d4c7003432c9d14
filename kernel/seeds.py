"""Derived seeds make a run repeatable without making two solvers the same solver."""

from hashlib import blake2b


def derived_seed(seed: int, *names: str) -> int:
    """Return the seed for one call of a run, 0 .. 2**31 - 1, from the caller's seed and what the call is for.

    Args:
        seed: The caller's seed [any integer].
        names: What the call is for, e.g. stage, agent, chunk.

    Returns:
        Seed of the call [0..2**31 - 1].

    Source: ours (papers.md 4.2). A backend numbers the samples of one call from its seed, so two calls with one seed
    would draw the same samples.

    Example:
        >>> derived_seed(7, "thesis", "ada", "0") == derived_seed(7, "thesis", "ada", "0")
        True
        >>> derived_seed(7, "thesis", "ada", "0") == derived_seed(7, "thesis", "ada", "1")
        False
    """
    text = "\x1f".join((str(seed), *names))
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") >> 1
