"""What can be set for a backend."""

from collections.abc import Mapping
from dataclasses import field
from urllib.parse import urlsplit

from inference.values import WorkKind
from kernel.errors import InvalidArgument
from kernel.prices import Price
from kernel.values import value

# vLLM's server closes a connection that was idle for 5 s; a request that is sent in that moment is lost.
SERVER_IDLE_S = 5.0


@value
class PoolSize:
    """Bounds of one kind of work on one backend.

    Attributes:
        in_flight: HTTP requests at a time [count, >= 1].
        queue: Requests that may wait for a place; the next one is refused [count, >= 0].
    """

    in_flight: int
    queue: int


POOLS: Mapping[WorkKind, PoolSize] = {
    WorkKind.ASSESS: PoolSize(in_flight=64, queue=1024),
    WorkKind.SYSTEM_ONE: PoolSize(in_flight=256, queue=1024),
    WorkKind.STAGE: PoolSize(in_flight=64, queue=1024),
}


@value
class Retries:
    """When a request is repeated: exponential backoff with full jitter.

    Repeated is what found no connection, what was turned away (429, 503), and what was lost before a reply began. The
    backend may have acted on the last kind, so that it counts as spent and is repeated only within the envelope.

    Attributes:
        count: Repetitions after the first try [count, >= 0].
        base_s: Upper end of the first pause; it doubles each time [s].
        cap_s: Upper end of every pause [s]. A backend's Retry-After is waited for in addition.
    """

    count: int = 3
    base_s: float = 0.1
    cap_s: float = 2.0


@value
class BreakerSettings:
    """When a backend is left alone.

    Attributes:
        failures: Failures in a row that open the circuit [count, >= 1].
        cool_down_s: Time until one request may try again [s].
        hang_s: A request that had at least this long, and ended at its deadline before a reply began, failed; one that
            had less tells nothing of the backend [s].
    """

    failures: int = 8
    cool_down_s: float = 5.0
    hang_s: float = 10.0


@value
class BackendConfig:
    """One backend: where it is, which model it serves, and how it may be used.

    Attributes:
        name: Name in logs, metrics and errors.
        base_url: http(s) URL; with no path, `/v1` is added, as OpenAI's clients write it.
        model: Model asked for.
        api_key: Sent as a bearer token; never shown.
        price: Price of the model's tokens; None where it is not known, and no cost can be told or limited.
        pools: Bounds per kind of work; what is left out has `POOLS`.
        max_samples_per_call: Largest `n` of one request; None until the backend says otherwise.
        context_tokens: The model's context; None takes what the backend lists [tokens].
        default_max_tokens: Bound of a forwarded request that states none [tokens].
        connect_timeout_s: Bound on connecting [s, > 0].
        idle_timeout_s: When an idle connection is closed [s, > 0 and < 5].
        priorities: vLLM's request priority per kind of work (lower goes first); sent only where there is one, since
            a server without `--scheduling-policy priority` refuses it.
        thinking_on: Fields that switch reasoning on.
        thinking_off: Fields that switch reasoning off.

    Raises:
        InvalidArgument: On construction, for an unusable URL or timeout.
    """

    name: str
    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    price: Price | None = None
    pools: Mapping[WorkKind, PoolSize] = field(default_factory=dict)
    max_samples_per_call: int | None = None
    context_tokens: int | None = None
    default_max_tokens: int = 1024
    connect_timeout_s: float = 2.0
    idle_timeout_s: float = 4.0
    retries: Retries = field(default_factory=Retries)
    breaker: BreakerSettings = field(default_factory=BreakerSettings)
    priorities: Mapping[WorkKind, int] = field(default_factory=dict)
    thinking_on: Mapping[str, object] = field(
        default_factory=lambda: {"chat_template_kwargs": {"enable_thinking": True}}
    )
    thinking_off: Mapping[str, object] = field(
        default_factory=lambda: {"chat_template_kwargs": {"enable_thinking": False}}
    )

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument(
                f"backend {self.name}: base_url {self.base_url!r} is no http or https URL", field="base_url"
            )
        if not 0.0 < self.idle_timeout_s < SERVER_IDLE_S:
            raise InvalidArgument(
                f"backend {self.name}: idle_timeout_s is {self.idle_timeout_s}; it must be above 0 and below "
                f"{SERVER_IDLE_S:g}, when servers close idle connections",
                field="idle_timeout_s",
            )

    @property
    def api_root(self) -> str:
        """Return URL that `/chat/completions` and `/models` are under."""
        root = self.base_url.rstrip("/")
        return root if urlsplit(root).path else root + "/v1"

    def pool(self, work: WorkKind) -> PoolSize:
        """Return bounds of `work`."""
        return self.pools.get(work, POOLS[work])
