"""Redaction leaves decisions, numbers, names and digests of a run where contents are not stored."""

from dataclasses import replace

from google.protobuf.descriptor import Descriptor
from metacog.router.v1 import router_pb2

from chassis.redaction import messages
from services.router.service.runs.values import ACCOUNT_FIELDS, Run

MESSAGE: Descriptor = router_pb2.Run.DESCRIPTOR


def without_contents(run: Run) -> Run:
    """Return `run` without any word of question or answer; only this reaches the queue, the disk and the database.

    What stays follows from the contract (`chassis.redaction`); a strategy's account that is not in it is dropped.
    """
    bare = messages.without_contents(replace(run, deliberation=None), MESSAGE)
    field = ACCOUNT_FIELDS.get(run.strategy)
    if run.deliberation is None or field is None:
        return bare
    account: Descriptor = type(getattr(router_pb2.Run(), field)).DESCRIPTOR
    return replace(bare, deliberation=messages.without_contents(run.deliberation, account))


def has_contents(run: Run) -> bool:
    """Return whether the conversation of `run` was stored; none has no turn."""
    return bool(run.messages)
