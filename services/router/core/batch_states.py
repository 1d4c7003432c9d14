"""A batch goes through these states, and its next step follows from its lines."""

from collections.abc import Mapping
from enum import StrEnum


class BatchStatus(StrEnum):
    """A batch has one of OpenAI's states."""

    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


# What may follow each state; an ended batch stays as it is.
FOLLOWING: Mapping[BatchStatus, frozenset[BatchStatus]] = {
    BatchStatus.VALIDATING: frozenset({BatchStatus.IN_PROGRESS, BatchStatus.FAILED, BatchStatus.CANCELLING}),
    BatchStatus.IN_PROGRESS: frozenset({BatchStatus.FINALIZING, BatchStatus.EXPIRED, BatchStatus.CANCELLING}),
    BatchStatus.FINALIZING: frozenset({BatchStatus.COMPLETED}),
    BatchStatus.CANCELLING: frozenset({BatchStatus.CANCELLED}),
    BatchStatus.FAILED: frozenset(),
    BatchStatus.COMPLETED: frozenset(),
    BatchStatus.EXPIRED: frozenset(),
    BatchStatus.CANCELLED: frozenset(),
}
ENDED = frozenset(status for status, following in FOLLOWING.items() if not following)
ACTIVE = frozenset(FOLLOWING) - ENDED
CANCELLABLE = frozenset(status for status in ACTIVE if BatchStatus.CANCELLING in FOLLOWING[status])


class Step(StrEnum):
    """A step is what is done next for a batch; its lines are answered besides.

    `WAIT`: nothing, while lines are answered. `VALIDATE`: the input file is checked. `FINALIZE`: every line has its
    result. `END`: the files of results are closed. `EXPIRE`, `CANCEL`: each line that is left gets an error, and the
    batch ends.
    """

    WAIT = "WAIT"
    VALIDATE = "VALIDATE"
    FINALIZE = "FINALIZE"
    END = "END"
    EXPIRE = "EXPIRE"
    CANCEL = "CANCEL"


def next_step(status: BatchStatus, *, left: bool, working: bool, late: bool) -> Step:
    """Return the next step of a batch.

    Args:
        status: Its state.
        left: Whether lines have no result yet.
        working: Whether a process answers some of these now.
        late: Whether its completion window is over.

    Example:
        >>> next_step(BatchStatus.IN_PROGRESS, left=True, working=False, late=False)
        <Step.WAIT: 'WAIT'>
        >>> next_step(BatchStatus.IN_PROGRESS, left=True, working=False, late=True)
        <Step.EXPIRE: 'EXPIRE'>
        >>> next_step(BatchStatus.CANCELLING, left=True, working=True, late=False)
        <Step.WAIT: 'WAIT'>
    """
    match status:
        case BatchStatus.VALIDATING:
            return Step.VALIDATE
        case BatchStatus.FINALIZING:
            return Step.END
        case BatchStatus.CANCELLING:
            return Step.WAIT if working else Step.CANCEL
        case BatchStatus.IN_PROGRESS if not left:
            return Step.FINALIZE
        case BatchStatus.IN_PROGRESS if late and not working:
            return Step.EXPIRE
        case _:
            return Step.WAIT


def places(at_once: int, *, in_flight: int, deliberations: int) -> int:
    """Return how many lines one process answers at once: at most a quarter of each kind of its places [count, >= 1].

    Args:
        at_once: The most that the operator wants [count, >= 1].
        in_flight: Places of requests [count, >= 1].
        deliberations: Places of deliberations [count, >= 1].

    Example:
        >>> places(8, in_flight=512, deliberations=32), places(8, in_flight=8, deliberations=32)
        (8, 2)
    """
    return max(1, min(at_once, in_flight // 4, deliberations // 4))
