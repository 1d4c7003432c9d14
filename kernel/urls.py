"""URLs are shown without their user information, which holds passwords."""

import re

# From `://` to the last `@` before the path; a password may contain an `@` that was not encoded.
_USER_INFO = re.compile(r"(?<=://)[^\s/?#\"'<>]*@")


def without_user_info(text: str) -> str:
    """Return `text` with the user information taken out of every URL in it.

    Example:
        >>> without_user_info("no answer from http://ann:p@ss@10.0.0.5:8000/v1; ask ann@example.org")
        'no answer from http://10.0.0.5:8000/v1; ask ann@example.org'
    """
    return _USER_INFO.sub("", text) if "@" in text else text
