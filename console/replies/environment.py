"""Templates that read the contract's messages: `run.confidence` is None where it is unknown, `run.outcome` a word."""

from typing import Any

from google.protobuf.message import Message
from jinja2 import Environment

from console.replies.fields import known


class MessageEnvironment(Environment):
    """An environment whose templates read the fields of a message as far as they are known, and all else as ever."""

    def getattr(self, obj: Any, attribute: str) -> Any:  # noqa: ANN401 - templates read anything
        """Return an attribute; of a message, the field."""
        return self._field(obj, attribute) if isinstance(obj, Message) else super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:  # noqa: ANN401 - templates read anything
        """Return an item; of a message, the field: filters with `attribute` read it so."""
        return self._field(obj, argument) if isinstance(obj, Message) else super().getitem(obj, argument)

    def _field(self, message: Message, name: str) -> object:
        if name in message.DESCRIPTOR.fields_by_name:
            return known(message, name)
        return self.undefined(obj=message, name=name)
