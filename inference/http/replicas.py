"""Replicas are the endpoints of one backend: each request goes to the one that is least busy for its weight.

While all are idle they take turns, in proportion to their weights.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import TracebackType

from inference.config import CircuitSettings, Endpoint
from inference.http.circuit import Circuit
from inference.values import Place


class Replica:
    """A replica is one endpoint with its circuit and the requests that are under way to it.

    Args:
        backend: Name of the backend, for messages.
        endpoint: The endpoint.
        settings: When its circuit opens, and for how long.
        clock: Monotonic clock [s].
        probe: Returns what is wrong with its server; empty while that answers.
    """

    def __init__(
        self,
        backend: str,
        endpoint: Endpoint,
        settings: CircuitSettings,
        clock: Callable[[], float],
        probe: "Callable[[Replica], Awaitable[str]]",
    ) -> None:
        self.endpoint = endpoint
        bearer = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
        self.headers: Mapping[str, str] = {"content-type": "application/json", **bearer}
        self.circuit = Circuit(backend, settings, clock, lambda: probe(self), address=endpoint.api_root)
        self.in_flight = 0
        # How far it is behind its share of the turns.
        self.credit = 0.0

    def address(self, place: Place) -> str:
        """Return the URL of one of its server's places."""
        return f"{self.endpoint.server_root if place.at_root else self.endpoint.api_root}{place.path}"

    def under_way(self) -> "RequestUnderWay":
        """Return the context of one request to this replica."""
        return RequestUnderWay(self)

    @property
    def load(self) -> float:
        """Return how busy it would be with one request more, for its weight."""
        return (self.in_flight + 1) / self.endpoint.weight


class RequestUnderWay:
    """A request that is under way counts as load of its replica while its context is open."""

    __slots__ = ("_replica",)

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def __enter__(self) -> None:
        self._replica.in_flight += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._replica.in_flight -= 1


class Replicas:
    """The replicas of one backend, of which each request takes one.

    Args:
        backend: Name of the backend, for messages.
        endpoints: Its endpoints.
        settings: When a circuit opens, and for how long.
        clock: Monotonic clock [s].
        probe: Returns what is wrong with the server of a replica; empty while that answers.
    """

    def __init__(
        self,
        backend: str,
        endpoints: Sequence[Endpoint],
        settings: CircuitSettings,
        clock: Callable[[], float],
        probe: Callable[[Replica], Awaitable[str]],
    ) -> None:
        self.all = [Replica(backend, endpoint, settings, clock, probe) for endpoint in endpoints]
        self._serving = list(self.all)
        self._next = 0

    def leave_out(self, places: Collection[int]) -> None:
        """Give no requests to the replicas at `places` from now on, and to all others."""
        self._serving = [replica for place, replica in enumerate(self.all) if place not in places] or list(self.all)

    def choose(self, tried: Collection[Replica] = ()) -> Replica | None:
        """Return the least busy replica that is not among those `tried`; None where none is left.

        One whose circuit is open is chosen only where there is no other. Idle ones take turns in proportion to their
        weights, and equally busy ones equally.
        """
        left = [replica for replica in self._serving if replica not in tried]
        if len(left) <= 1:
            return left[0] if left else None
        able = [replica for replica in left if replica.circuit.admits] or left
        if not any(replica.in_flight for replica in able):
            return _in_turn(able)
        self._next += 1
        turn = self._next % len(able)
        return min(able[turn:] + able[:turn], key=lambda replica: replica.load)

    def other(self, tried: Collection[Replica]) -> Replica | None:
        """Return another replica than those `tried` whose circuit admits a request; None where there is none."""
        found = self.choose(tried)
        return found if found is not None and found.circuit.admits else None


def _in_turn(replicas: Sequence[Replica]) -> Replica:
    """Return the replica whose turn it is, by smooth weighted round robin."""
    for replica in replicas:
        replica.credit += replica.endpoint.weight
    chosen = max(replicas, key=lambda replica: replica.credit)
    chosen.credit -= sum(replica.endpoint.weight for replica in replicas)
    return chosen
