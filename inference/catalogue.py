"""The models of one backend, asked for once and remembered for a while."""

import asyncio
from collections.abc import Callable, Mapping

from inference.config import BackendConfig
from inference.errors import BackendUnavailable, InferenceError, InvalidCall, ModelNotFound
from inference.http.backend_connection import BackendConnection
from inference.http.error_replies import error_of
from inference.http.transport import TransportFailure
from inference.json_fields import count_of, object_of, objects_of, parse_object, text_of
from inference.values import ModelInfo

CACHED_S = 60.0
RETRY_AFTER_S = 5.0
MODELS_TIMEOUT_S = 2.0
# As llama.cpp names itself in its list.
LLAMACPP = "llamacpp"

Models = tuple[ModelInfo, ...]


class Catalogue:
    """What a backend serves.

    llama.cpp answers 200 for a model that it does not have, and ignores a `max_tokens` beyond its context: so both are
    checked here, against its list. A backend without a list is believed.

    Args:
        config: The backend.
        connection: The way to it.
        clock: Monotonic clock [s].
    """

    def __init__(self, config: BackendConfig, connection: BackendConnection, clock: Callable[[], float]) -> None:
        self._config = config
        self._connection = connection
        self._clock = clock
        self._lock = asyncio.Lock()
        self._models: Models | None = None
        self._good_until = float("-inf")

    async def models(self) -> Models:
        """Ask for the models now, within `MODELS_TIMEOUT_S`.

        Raises:
            BackendUnavailable: When the backend cannot be reached or is not ready.
            InferenceError: When it refuses.
        """
        name = self._config.name
        try:
            async with asyncio.timeout(MODELS_TIMEOUT_S):
                reply = await self._connection.get("/models")
        except (TransportFailure, TimeoutError) as failure:
            reason = str(failure) or f"no answer within {MODELS_TIMEOUT_S:g} s"
            message = f"backend {name} cannot be reached at {self._config.base_url}: {reason}"
            raise BackendUnavailable(message, backend=name) from failure
        if reply.status != 200:
            raise error_of(name, self._config.model, reply)
        models = tuple(_model(entry) for entry in objects_of(parse_object(reply.body).get("data")))
        self._cache(models or None, CACHED_S)
        return models

    @property
    def is_fresh(self) -> bool:
        """Return whether what is remembered still holds."""
        return self._clock() < self._good_until

    @property
    def overlooks_lost_clients(self) -> bool:
        """Return whether the backend may go on generating a whole reply for a client that has gone (`gathering`)."""
        return any(model.owner == LLAMACPP for model in self._models or ())

    async def known(self) -> Models | None:
        """Return the models as remembered, or asked for if that is too long ago; None where the backend does not tell."""
        if self.is_fresh:
            return self._models
        async with self._lock:
            if not self.is_fresh:
                try:
                    await self.models()
                except InferenceError:
                    # The call itself will meet the same trouble, and has retries and names for it.
                    self._cache(self._models, RETRY_AFTER_S)
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

    def _cache(self, models: Models | None, for_s: float) -> None:
        self._models = models
        self._good_until = self._clock() + for_s


def _model(entry: Mapping[str, object]) -> ModelInfo:
    """Return a model as vLLM (`max_model_len`) or llama.cpp (`meta.n_ctx`, per slot) lists it."""
    context = count_of(entry.get("max_model_len")) or count_of(object_of(entry.get("meta")).get("n_ctx"))
    aliases = entry.get("aliases")
    names = tuple(map(str, aliases)) if isinstance(aliases, list) else ()
    return ModelInfo(
        id=text_of(entry.get("id")), context_tokens=context, aliases=names, owner=text_of(entry.get("owned_by"))
    )
