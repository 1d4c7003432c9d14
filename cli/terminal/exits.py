"""Exit statuses of `metacog`, the same for every command."""

from kernel.errors import Code, MetacogError

OK = 0
REFUSED = 1  # what was asked for was not done, or a check found something wrong
USAGE = 2  # the command line, or a file that it names, cannot be used; nothing was sent
AWAY = 3  # the suite, or something that it needs, cannot be reached; the same command may work later
FORBIDDEN = 4  # no key, an unknown one, or one that may not do this
PARTLY = 5  # done, but for some lines or files, which are named
INTERRUPTED = 130  # Ctrl-C


class UnusableInput(MetacogError):
    """A file or an argument that the user named cannot be used; the message says where and why."""

    code = Code.INVALID_ARGUMENT
    reason = "MALFORMED_REQUEST"


def status_of(refusal: MetacogError) -> int:
    """Exit status for a refusal.

    Example:
        >>> from kernel.errors import Bug
        >>> status_of(Bug()), status_of(UnusableInput("no"))
        (1, 2)
    """
    if isinstance(refusal, UnusableInput):
        return USAGE
    by_code = {Code.UNAVAILABLE: AWAY, Code.UNAUTHENTICATED: FORBIDDEN, Code.PERMISSION_DENIED: FORBIDDEN}
    return by_code.get(refusal.code, REFUSED)
