"""The worked example of the guide: TLS in front, with client certificates on the API."""

import ssl
from collections.abc import Callable

import grpc
import httpx
import pytest
from metacog.router.v1 import router_pb2, router_pb2_grpc
from openai import DefaultHttpxClient, OpenAI

from tests.compose.live.suite import READY_WITHIN_S, TLS_PORTS, Suite, awaited

URL = f"https://localhost:{TLS_PORTS['METACOG_TLS_REST_PORT']}"
GRPC = f"localhost:{TLS_PORTS['METACOG_TLS_GRPC_PORT']}"
CONSOLE = f"https://localhost:{TLS_PORTS['METACOG_TLS_CONSOLE_PORT']}"

Client = Callable[[bool], httpx.Client]


def trusting(suite: Suite, with_certificate: bool) -> ssl.SSLContext:
    """TLS of a client that trusts our CA, with a certificate of its own or without."""
    context = ssl.create_default_context(cafile=str(suite.secrets / "tls/ca.crt"))
    if with_certificate:
        context.load_cert_chain(suite.secrets / "tls/client-ann.crt", suite.secrets / "tls/client-ann.key")
    return context


@pytest.fixture(scope="module")
def client(suite: Suite) -> Client:
    """A client that trusts our CA, with a certificate of its own or without; once the proxy is up."""
    suite.up("tls")

    def made(with_certificate: bool) -> httpx.Client:
        return httpx.Client(verify=trusting(suite, with_certificate), timeout=300)

    def is_up() -> bool:
        with made(True) as one:
            return one.get(f"{URL}/healthz").status_code == 200

    awaited(is_up, READY_WITHIN_S, "the proxy is up")
    return made


def test_the_stock_client_streams_through_tls_with_its_certificate(suite: Suite, client: Client) -> None:
    del client
    http = DefaultHttpxClient(verify=trusting(suite, with_certificate=True), timeout=300)
    openai = OpenAI(base_url=f"{URL}/v1", api_key=suite.key, http_client=http, max_retries=0)

    stream = openai.chat.completions.create(
        model="metacog/system1",
        messages=[{"role": "user", "content": "Count to twenty"}],
        max_tokens=16,
        stream=True,
    )

    assert len(list(stream)) > 3


def test_without_a_certificate_nobody_gets_through(suite: Suite, client: Client) -> None:
    with client(False) as nobody:
        refused = nobody.get(f"{URL}/v1/models", headers={"authorization": f"Bearer {suite.key}"})

    assert refused.status_code == 400
    assert "certificate" in refused.text


def test_a_certificate_does_not_stand_for_a_key(client: Client) -> None:
    with client(True) as keyless:
        assert keyless.get(f"{URL}/v1/models").status_code == 401


def test_grpc_goes_through_with_both(suite: Suite, client: Client) -> None:
    del client
    folder = suite.secrets / "tls"
    trusted, key, certificate = (
        (folder / name).read_bytes() for name in ("ca.crt", "client-ann.key", "client-ann.crt")
    )
    asked = router_pb2.ListRunsRequest(page_size=1)
    auth = (("authorization", f"Bearer {suite.key}"),)

    with grpc.secure_channel(GRPC, grpc.ssl_channel_credentials(trusted, key, certificate)) as channel:
        told = router_pb2_grpc.RouterServiceStub(channel).ListRuns(asked, metadata=auth, timeout=30)
    with grpc.secure_channel(GRPC, grpc.ssl_channel_credentials(trusted)) as channel, pytest.raises(grpc.RpcError):
        router_pb2_grpc.RouterServiceStub(channel).ListRuns(asked, metadata=auth, timeout=30)

    assert len(told.runs) == 1


def test_people_reach_the_console_without_a_certificate_and_log_in(client: Client) -> None:
    with client(False) as person:
        assert person.get(f"{CONSOLE}/login").status_code == 200
