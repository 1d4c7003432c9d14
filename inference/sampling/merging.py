"""The reply to a forwarded request, whose samples may have come in several replies."""

from collections.abc import Mapping, Sequence

import orjson

from inference.json_fields import mapping, mappings
from inference.sampling.sampler import ForwardedSource, SampleBatch
from inference.values import Reply


def replied(ask: ForwardedSource, harvest: SampleBatch) -> Reply:
    """What the caller gets: the backend's own bytes where one request drew all samples, else one document of them all.

    Raises:
        MetacogError: The harvest's failure.
    """
    if harvest.failure is not None:
        raise harvest.failure
    whole, usage, cut = harvest.replies[0], ask.account.spent, ask.account.cut
    if len(harvest.replies) == 1 and ask.wanted.drawn == ask.wanted.samples:
        return Reply(body=whole.body, document=whole.document, usage=usage, cut=cut)
    document = merged(harvest, copies=ask.wanted.samples // ask.wanted.drawn)
    return Reply(body=orjson.dumps(document), document=document, usage=usage, cut=cut)


def merged(harvest: SampleBatch, *, copies: int) -> dict[str, object]:
    """The first reply of `harvest` with the choices of all, `copies` times and numbered anew, and the sum of usage."""
    documents = [reply.document for reply in harvest.replies]
    parts = zip(documents, harvest.replies, strict=True)
    choices = [choice for part, reply in parts for choice in mappings(part.get("choices"))[: len(reply.choices)]]
    numbered = [{**choice, "index": index} for index, choice in enumerate(choices * copies)]
    usage = summed([mapping(part.get("usage")) for part in documents])
    return {**documents[0], "choices": numbered, **({"usage": usage} if usage else {})}


def summed(usages: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Figures of all `usages` added up, name by name; what is no number is taken from the first that has it.

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
