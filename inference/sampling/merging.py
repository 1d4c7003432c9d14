"""The reply to a forwarded request, whose samples may have come in several replies."""

from collections.abc import Mapping, Sequence

import orjson

from inference.json_fields import object_of, objects_of
from inference.sampling.sampler import ForwardedSource, SampleBatch
from inference.values import Reply


def reply_of(source: ForwardedSource, batch: SampleBatch) -> Reply:
    """Return what the caller gets: the backend's own bytes where one request drew all samples, else one document of them all.

    Raises:
        MetacogError: The batch's failure.
    """
    if batch.failure is not None:
        raise batch.failure
    whole, usage, cut = batch.replies[0], source.account.spent, source.account.cut
    if len(batch.replies) == 1 and source.request.drawn == source.request.samples:
        return Reply(body=whole.body, document=whole.document, usage=usage, cut=cut)
    document = merged(batch, copies=source.request.samples // source.request.drawn)
    return Reply(body=orjson.dumps(document), document=document, usage=usage, cut=cut)


def merged(batch: SampleBatch, *, copies: int) -> dict[str, object]:
    """Return the first reply of `batch` with the choices of all, `copies` times and numbered anew, and the sum of usage."""
    documents = [reply.document for reply in batch.replies]
    parts = zip(documents, batch.replies, strict=True)
    choices = [choice for part, reply in parts for choice in objects_of(part.get("choices"))[: len(reply.choices)]]
    numbered = [{**choice, "index": index} for index, choice in enumerate(choices * copies)]
    usage = summed([object_of(part.get("usage")) for part in documents])
    return {**documents[0], "choices": numbered, **({"usage": usage} if usage else {})}


def summed(usages: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return figures of all `usages` added up, name by name; what is no number is taken from the first that has it.

    Example:
        >>> summed([{"total_tokens": 3, "details": {"cached": 1}}, {"total_tokens": 4, "details": {"cached": 2}}])
        {'total_tokens': 7, 'details': {'cached': 3}}
    """
    total: dict[str, object] = {}
    for usage in usages:
        for name, figure in usage.items():
            total[name] = _plus(total.get(name), figure)
    return total


def _plus(before: object, more: object) -> object:
    if before is None:
        return more
    if isinstance(before, dict) and isinstance(more, dict):
        return summed([before, more])
    if isinstance(before, int | float) and isinstance(more, int | float):
        return before + more
    return before
