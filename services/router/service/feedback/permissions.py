"""Whose word may change what the suite has learned."""

from chassis.serving.auth import ApiKey
from kernel.errors import Code, MetacogError


class TeachingNotAllowed(MetacogError):
    """The key may not change what the suite has learned."""

    code = Code.PERMISSION_DENIED
    reason = "TEACHING_NOT_ALLOWED"


def demand_teacher(key: ApiKey) -> None:
    """Return if `key` may change what the suite has learned.

    Raises:
        TeachingNotAllowed: When it may not.
    """
    if not key.may_teach:
        raise TeachingNotAllowed(
            f"the key of {key.name!r} may not change what the suite has learned", key_name=key.name
        )
