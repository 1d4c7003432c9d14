"""What a cost guard allowed, in words for a reader."""


def guard_in_words(times_system1: float, draft_tokens: int | None, most: int, reason: str) -> str:
    """Return what a cost guard allowed, and why a strategy was not started.

    Args:
        times_system1: Tokens of the run over those of its System 1 answer, at most [2..1000].
        draft_tokens: Tokens of that answer [count, >= 0]; None where they are unknown.
        most: Tokens that the run could generate [count, >= 1].
        reason: Why the strategy was not started; empty where it was.

    Example:
        >>> guard_in_words(6.0, 20, 384, "dialectic needs 416 tokens at least, and 364 are left of 384")
        'at most 6 times System 1 (20 tokens): 384 tokens; dialectic needs 416 tokens at least, and 364 are left of 384'
        >>> guard_in_words(2.5, None, 160, "")
        'at most 2.5 times System 1: 160 tokens'
    """
    draft = "" if draft_tokens is None else f" ({draft_tokens} tokens)"
    allowed = f"at most {times_system1:g} times System 1{draft}: {most} tokens"
    return f"{allowed}; {reason}" if reason else allowed
