"""Exit statuses of `metacog`, the same for every command."""

from kernel.errors import Code, MetacogError

OK = 0
FAILED = 1  # the service returned an error, or a check found a problem
USAGE = 2  # the command line, or a file that it names, is invalid; nothing was sent
UNREACHABLE = 3  # the suite, or a part that it needs, cannot be reached; the same command may succeed later
FORBIDDEN = 4  # the key is missing, unknown or not permitted to do this
PARTIAL = 5  # done, except for some lines or files, which are listed
INTERRUPTED = 130  # Ctrl-C


class UnusableInput(MetacogError):
    """A file or an argument of the user is invalid; the message describes where and why."""

    code = Code.INVALID_ARGUMENT
    reason = "MALFORMED_REQUEST"


def exit_status(error: MetacogError) -> int:
    """Return the exit status for an error.

    Example:
        >>> from kernel.errors import InternalError
        >>> exit_status(InternalError()), exit_status(UnusableInput("no"))
        (1, 2)
    """
    if isinstance(error, UnusableInput):
        return USAGE
    by_code = {Code.UNAVAILABLE: UNREACHABLE, Code.UNAUTHENTICATED: FORBIDDEN, Code.PERMISSION_DENIED: FORBIDDEN}
    return by_code.get(error.code, FAILED)
