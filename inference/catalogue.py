"""The models of one backend, asked for once and remembered for a while."""

import asyncio
from collections.abc import Callable, Mapping

from inference.config import BackendConfig
from inference.errors import BackendUnavailable, InferenceError, InvalidCall, ModelNotFound
from inference.http.backend_connection import BackendConnection
from inference.http.error_replies import refusal
from inference.http.transport import TransportFailure
from inference.json_fields import count, document, mapping, mappings, text
from inference.values import ModelInfo

REMEMBERED_S = 60.0
UNKNOWN_FOR_S = 5.0
PATIENCE_S = 2.0
# As llama.cpp names itself in its list.
LLAMACPP = "llamacpp"

Models = tuple[ModelInfo, ...]


class Catalogue:
    """What a backend serves.

    llama.cpp answers 200 for a model that it does not have, and ignores a `max_tokens` beyond its context: so both are
    checked here, against its list. A backend without a list is believed.

    Args:
        config: The backend.
        link: The way to it.
        clock: Monotonic clock [s].
    """

    def __init__(self, config: BackendConfig, link: BackendConnection, clock: Callable[[], float]) -> None:
        self._config = config
        self._link = link
        self._clock = clock
        self._asking = asyncio.Lock()
        self._models: Models | None = None
        self._good_until = float("-inf")

    async def models(self) -> Models:
        """Ask for the models now, within `PATIENCE_S`.

        Raises:
            BackendUnavailable: When the backend cannot be reached or is not ready.
            InferenceError: When it refuses.
        """
        name = self._config.name
        try:
            async with asyncio.timeout(PATIENCE_S):
                reply = await self._link.get("/models")
        except (TransportFailure, TimeoutError) as failure:
            why = str(failure) or f"no answer within {PATIENCE_S:g} s"
            message = f"backend {name} cannot be reached at {self._config.base_url}: {why}"
            raise BackendUnavailable(message, backend=name) from failure
        if reply.status != 200:
            raise refusal(name, self._config.model, reply)
        models = tuple(_model(entry) for entry in mappings(document(reply.body).get("data")))
        self._remember(models or None, REMEMBERED_S)
        return models

    @property
    def is_fresh(self) -> bool:
        """Whether what is remembered still holds."""
        return self._clock() < self._good_until

    @property
    def overlooks_lost_clients(self) -> bool:
        """Whether the backend may go on generating a whole reply for a client that has gone (`gathering`)."""
        return any(model.owner == LLAMACPP for model in self._models or ())

    async def known(self) -> Models | None:
        """The models as remembered, or asked for if that is too long ago; None where the backend does not tell."""
        if self.is_fresh:
            return self._models
        async with self._asking:
            if not self.is_fresh:
                try:
                    await self.models()
                except InferenceError:
                    # The call itself will meet the same trouble, and has retries and names for it.
                    self._remember(self._models, UNKNOWN_FOR_S)
        return self._models

    async def check(self, max_tokens: int | None) -> int | None:
        """Check that the configured model is served and that `max_tokens` can fit into its context.

        Returns:
            The context [tokens], None where it is unknown.

        Raises:
            ModelNotFound: When the backend lists models, and this is not among them.
            InvalidCall: When the tokens cannot fit, whatever the prompt.
        """
        models = await self.known()
        context = self._config.context_tokens
        if models:
            listed = self._served(models).context_tokens
            context = context or listed
        if context is not None and max_tokens is not None and max_tokens >= context:
            raise InvalidCall("max_tokens", f"{max_tokens} leave no room for a prompt in the context of {context}")
        return context

    def forget(self) -> None:
        """Ask again next time: the backend just contradicted its list."""
        self._good_until = float("-inf")

    def _served(self, models: Models) -> ModelInfo:
        wanted = self._config.model
        found = next((model for model in models if model.answers_to(wanted)), None)
        if found is None:
            served = ", ".join(sorted(model.id for model in models))
            raise ModelNotFound(
                f"backend {self._config.name} does not serve {wanted}, but {served}",
                backend=self._config.name,
                model=wanted,
                served=served,
            )
        return found

    def _remember(self, models: Models | None, for_s: float) -> None:
        self._models = models
        self._good_until = self._clock() + for_s


def _model(entry: Mapping[str, object]) -> ModelInfo:
    """A model as vLLM (`max_model_len`) or llama.cpp (`meta.n_ctx`, per slot) lists it."""
    context = count(entry.get("max_model_len")) or count(mapping(entry.get("meta")).get("n_ctx"))
    aliases = entry.get("aliases")
    names = tuple(map(str, aliases)) if isinstance(aliases, list) else ()
    return ModelInfo(id=text(entry.get("id")), context_tokens=context, aliases=names, owner=text(entry.get("owned_by")))
