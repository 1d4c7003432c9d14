"""The account of what a strategy had finished gets the form of a whole one, which readers of runs know."""

from collections.abc import Mapping
from typing import Any

from metacog.router.v1 import router_pb2

from chassis.serving.wire import known_part, plain, to_proto
from kernel.envelope import Usage
from kernel.outcomes import Outcome


def whole_account(field: str, found: Mapping[str, Any], usage: Usage) -> Mapping[str, Any]:
    """Return an account with every field of the contract; what was not finished is empty.

    The outcome of a vote has no word for it, and stays unknown.

    Args:
        field: Field of the contract's run that holds such an account.
        found: What was finished.
        usage: What the run has spent.
    """
    kind = type(getattr(router_pb2.Run(), field))
    outcome = {"outcome": Outcome.CANCELLED} if field != "vote" else {}
    return plain(to_proto({**known_part(found, kind), **outcome, "usage": usage}, kind))
