"""The passing gateway finds the model of a call that is passed on."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from inference import EncoderUnavailable
from services.router.service.gateway.chat_request import MODELS, model_name
from services.router.service.gateway.offered_models import OfferedModels
from services.router.service.gateway.passed_fields import PassedFields
from services.router.service.passing.calls import NamedTarget, PassedRequest, named_target, parsed_call
from services.router.service.passing.endpoints import PassedEndpoint
from services.router.service.passing.passing import PassingContext
from services.router.service.runs.values import CallKind

# Time that the encoder gets to say its name [s].
ENCODER_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PassingGateway:
    """The gateway holds what calls need to be read and passed on.

    Attributes:
        context: What passing on needs.
        offered: The models that are offered by name.
        aliases: Model names that stand for others.
        media_hosts: Hosts from which the model server may fetch what messages name by URL.
        more_fields: Fields that the operator lets through, whatever the endpoint.
    """

    context: PassingContext
    offered: OfferedModels
    aliases: Mapping[str, str]
    media_hosts: Sequence[str]
    more_fields: Sequence[str]

    async def parsed(
        self, body: object, endpoint: PassedEndpoint, key_name: str, *, for_chat: bool = False
    ) -> PassedRequest:
        """Return the call in `body`, with the model that serves it.

        Args:
            body: The request as JSON has it.
            endpoint: Where it came in.
            key_name: Name of the API key of the request.
            for_chat: Whether it is about a chat, which may name a strategy: the default model serves it then.

        Raises:
            MetacogError: As `named_target` and `parsed_call`.
        """
        return parsed_call(
            body,
            endpoint,
            await self._target(model_name(body), endpoint.call, for_chat=for_chat),
            key_name=key_name,
            media_hosts=self.media_hosts,
            passed=PassedFields(self.more_fields, endpoint.fields),
        )

    async def _target(self, asked: str, call: CallKind, *, for_chat: bool) -> NamedTarget:
        named = self.aliases.get(asked, asked)
        if for_chat and named in MODELS:
            return NamedTarget(asked=asked)
        if not named or named in MODELS:
            return named_target(asked, named, (), call=call)
        models = await self.offered.answering(asked)
        encoder = await self.encoder_name() if call is CallKind.EMBEDDING and named not in models else None
        return named_target(asked, named, models, call=call, encoder=encoder)

    async def encoder_name(self) -> str | None:
        """Return the name of the sentence encoder; None where there is none, or it does not say."""
        with suppress(EncoderUnavailable, TimeoutError):
            async with asyncio.timeout(ENCODER_WITHIN_S):
                return await self.context.encoder.name()
        return None
