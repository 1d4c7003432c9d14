"""The requests of a recording, in the order in which they are sent; what one leaves behind, later ones see."""

from collections.abc import Sequence

from tests.recorded.asking import Request
from tests.recorded.requests import arbiter, assigner, chat, commands, delegation, guarded, router

REQUESTS: Sequence[Request] = [
    *chat.REQUESTS,
    *router.REQUESTS,
    *assigner.REQUESTS,
    *arbiter.REQUESTS,
    *delegation.REQUESTS,
    *guarded.REQUESTS,
    *commands.REQUESTS,
]
assert len({request.id for request in REQUESTS}) == len(REQUESTS), "two requests have one identifier"
