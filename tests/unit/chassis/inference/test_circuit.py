"""A circuit opens for what several callers show about a server, each for no more than half of it.

The figures are those of the default settings: 8 failures within 60 s open it, so no caller counts for more than 4.
"""

import asyncio

import pytest

from chassis.admission import CALLER_KEY
from inference.config import CircuitSettings
from inference.http.circuit import Circuit, RequestEnd

LONG_S = 30.0


class Server:
    """A server that answers every probe, its circuit, and the time [s]."""

    def __init__(self) -> None:
        self.now = 0.0
        self.probes = 0
        self._was_probed = asyncio.Event()
        self.circuit = Circuit("here", CircuitSettings(), lambda: self.now, self._probe)

    async def _probe(self) -> str:
        self.probes += 1
        self._was_probed.set()
        return ""

    def ends(self, caller: str, end: RequestEnd, count: int = 1, *, waited_s: float = 0.0) -> None:
        """Record the ends of so many requests of a caller."""
        token = CALLER_KEY.set(caller)
        for _ in range(count):
            self.circuit.record(object(), end, waited_s=waited_s)
        CALLER_KEY.reset(token)

    async def probed(self) -> None:
        """Wait until a probe has succeeded, and time for the next one has come."""
        await self._was_probed.wait()
        self.now += 5.0


@pytest.fixture
def server() -> Server:
    return Server()


async def test_one_caller_and_a_stray_failure_of_another_open_nothing(server: Server) -> None:
    for good in ("g1", "g2"):
        server.ends(good, RequestEnd.ANSWERED, 50)
    server.ends("other", RequestEnd.FAILED)
    server.ends("bad", RequestEnd.FAILED, 7)  # 8 in all; of 4 callers, 2 had failures only

    assert not server.circuit.is_open


async def test_one_caller_counts_for_no_more_than_half_of_the_failures_that_open_it(server: Server) -> None:
    server.ends("bad", RequestEnd.FAILED, 100)  # counts for 4
    server.ends("g1", RequestEnd.FAILED, 3)
    assert not server.circuit.is_open  # 4 + 3

    server.ends("g1", RequestEnd.FAILED)
    assert server.circuit.is_open  # 4 + 4


async def test_a_caller_with_as_many_successes_as_failures_shows_nothing(server: Server) -> None:
    server.ends("g1", RequestEnd.ANSWERED, 4)
    server.ends("bad", RequestEnd.FAILED, 8)
    server.ends("g1", RequestEnd.FAILED, 4)
    assert not server.circuit.is_open

    server.ends("g1", RequestEnd.FAILED)
    assert server.circuit.is_open


async def test_a_successful_probe_forgets_the_failures_and_no_success(server: Server) -> None:
    for good in ("g1", "g2"):
        server.ends(good, RequestEnd.ANSWERED, 50)
    server.ends("bad", RequestEnd.FAILED, 8)
    await server.probed()

    server.ends("g1", RequestEnd.FAILED, 4)
    server.ends("bad", RequestEnd.FAILED, 3)  # 7 since the probe, which is too few for another one
    await asyncio.sleep(0)
    assert server.probes == 1
    server.ends("bad", RequestEnd.FAILED, 5)  # 4 of each would open it, but 50 requests of g1 succeeded

    assert not server.circuit.is_open


async def test_a_flood_of_one_caller_leaves_what_the_others_show(server: Server) -> None:
    for good in ("g1", "g2"):
        server.ends(good, RequestEnd.ANSWERED, 50)
    server.ends("bad", RequestEnd.FAILED, 2000)
    server.ends("g1", RequestEnd.FAILED, 8)

    assert not server.circuit.is_open


async def test_a_server_that_answers_probes_and_no_request_of_several_callers_is_left_alone(server: Server) -> None:
    for _ in range(10):
        for caller in range(8):
            server.ends(str(caller), RequestEnd.SILENT, waited_s=LONG_S)

    assert server.circuit.is_open


async def test_silence_is_kept_when_a_probe_succeeds(server: Server) -> None:
    for caller in range(8):
        server.ends(str(caller), RequestEnd.SILENT, waited_s=LONG_S)
    assert not server.circuit.is_open  # one each may be chance
    await server.probed()

    for caller in range(8):
        server.ends(str(caller), RequestEnd.SILENT, waited_s=LONG_S)
    assert server.circuit.is_open


@pytest.mark.parametrize("callers", [("ann",), ("ann", "bob")])
async def test_limits_of_the_callers_own_show_nothing(server: Server, callers: tuple[str, ...]) -> None:
    for caller in callers:
        server.ends(caller, RequestEnd.SILENT, 40, waited_s=9.9)
    assert not server.circuit.is_open


async def test_silence_of_one_caller_shows_nothing(server: Server) -> None:
    server.ends("bob", RequestEnd.SILENT, 8, waited_s=1.0)
    server.ends("ann", RequestEnd.SILENT, 80, waited_s=LONG_S)

    assert not server.circuit.is_open


async def test_silence_shows_nothing_while_any_request_is_answered(server: Server) -> None:
    server.ends("carol", RequestEnd.ANSWERED)
    server.now = 60.0
    for caller in ("ann", "bob"):
        server.ends(caller, RequestEnd.SILENT, 8, waited_s=LONG_S)
    assert not server.circuit.is_open

    server.now = 60.1  # the answer is now more than 60 s ago
    server.ends("ann", RequestEnd.SILENT, waited_s=LONG_S)
    assert server.circuit.is_open


async def test_what_was_sent_before_it_opened_does_not_open_it_again(server: Server) -> None:
    for caller in ("ann", "bob"):
        server.ends(caller, RequestEnd.SILENT, 4, waited_s=LONG_S)
    assert server.circuit.is_open
    server.ends("ann", RequestEnd.SILENT, 40, waited_s=LONG_S)
    server.ends("bob", RequestEnd.SILENT, 40, waited_s=LONG_S)
    server.now = 5.0
    await server.circuit.admit()

    server.ends("ann", RequestEnd.SILENT, waited_s=LONG_S)
    assert not server.circuit.is_open
