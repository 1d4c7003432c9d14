"""The files that containers are made of: they parse everywhere, and say what the documents promise."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import compose  # type: ignore[import-untyped]  # its package ships no types
import pytest
import yaml

from chassis.errors import Unauthenticated
from chassis.serving.auth import ACT, TEACH
from configuration.keys import read_keys
from console.pages.ask import MAX_QUESTION_BYTES
from console.settings import Settings as ConsoleSettings
from console.site import MAX_FORM_BYTES
from services.arbiter.compose import PROGRAM_MEMORY_BYTES, PROGRAMS_AT_ONCE
from services.router.openai_rest import chat, files, messages, passed, responses
from services.router.settings import Settings as RouterSettings

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
# The program itself: the launcher that its package installs forgets the exit status.
COMPOSE = str(Path(compose.__file__).with_name("docker-compose"))
PROFILES = ("gpu", "cpu", "vllm-cpu", "encoder", "observability")
OURS = ("router", "assigner", "arbiter", "delegation", "console", "migrate", "llm-cpu", "vllm-cpu", "encoder")
DOCKERFILES = [ROOT / "Dockerfile", *sorted((ROOT / "docker").rglob("Dockerfile")), ROOT / "docker/vllm-cpu.Dockerfile"]
# Memory of the arbiter without programs, as measured [bytes].
ARBITER_BYTES = 180 * 1024**2
# What docker-compose 1.29.2 refuses, or takes for something else.
UNKNOWN_TO_1_29 = re.compile(
    r"^name:|^include:|^version:|!reset|!override|count: .?\$|(?<!\$)\$\{\w+:\+|\$\{\w+:-[^}]*\$\{|"
    r"^\s+(gpus|develop|attach|annotations|post_start|models|start_interval|host_ip|create_host_path|"
    r"additional_contexts|dockerfile_inline|ssh|platforms|pids):",
    re.MULTILINE,
)


def run(*words: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(*files: str) -> dict[str, Any]:
    """The services as docker-compose 2.x reads them, with every profile on."""
    named = [word for file in ("docker-compose.yml", *files) for word in ("-f", file)]
    profiles = [word for profile in PROFILES for word in ("--profile", profile)]
    told = run(COMPOSE, "--env-file", ".env.example", *named, *profiles, "config", "--format", "json")
    services: dict[str, Any] = json.loads(told)["services"]
    return services


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return rendered()


def test_the_compose_files_parse_with_every_profile() -> None:
    assert set(rendered("tests/compose/docker-compose.test.yml")) >= {*OURS, "postgres", "prometheus", "grafana"}


def test_nothing_is_used_that_docker_compose_1_29_does_not_know() -> None:
    for file in (ROOT / "docker-compose.yml", ROOT / "tests/compose/docker-compose.test.yml"):
        assert UNKNOWN_TO_1_29.findall(file.read_text()) == []


@pytest.mark.parametrize("file", DOCKERFILES, ids=str)
def test_a_dockerfile_has_nothing_to_complain_of(file: Path) -> None:
    assert run(str(BIN / "hadolint"), str(file)) == ""


def test_only_router_console_and_grafana_are_published_and_on_loopback(services: dict[str, Any]) -> None:
    published = {
        (name, port["host_ip"], port["target"]) for name, one in services.items() for port in one.get("ports", ())
    }

    assert published == {
        ("router", "127.0.0.1", 8080),
        ("router", "127.0.0.1", 50051),
        ("console", "127.0.0.1", 8090),
        ("grafana", "127.0.0.1", 3000),
    }


def test_every_container_gives_up_what_it_does_not_need(services: dict[str, Any]) -> None:
    for name, one in services.items():
        assert one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert one.get("read_only") or name == "vllm", name  # a published image that writes its caches
        assert bool(one.get("cap_add")) == (name == "postgres"), name


def test_our_containers_are_checked_by_their_readiness_and_given_time_to_stop(services: dict[str, Any]) -> None:
    for name in set(OURS) - {"migrate"}:
        assert services[name]["healthcheck"]["test"][:3] == ["CMD", "python", "/opt/probe.py"], name
        assert services[name]["healthcheck"]["test"][3].endswith(("/readyz", "/health")), name
    grace = services["router"]["environment"]["METACOG_ROUTER_GRACE_S"]
    assert services["router"]["stop_grace_period"] == "1m15s"
    assert float(grace) < 75


def test_the_arbiters_container_has_memory_for_the_programs_that_models_write(services: dict[str, Any]) -> None:
    programs = PROGRAMS_AT_ONCE * PROGRAM_MEMORY_BYTES
    beside_them = 2 * ARBITER_BYTES  # its calculators, and what its /tmp holds

    assert int(services["arbiter"]["mem_limit"]) >= programs + beside_them


def test_every_container_of_a_model_has_a_limit_of_memory(services: dict[str, Any]) -> None:
    limits = {name: int(services[name].get("mem_limit", 0)) for name in ("vllm", "vllm-cpu", "llm-cpu", "encoder")}

    assert [name for name, limit in limits.items() if not limit] == []


def test_the_token_of_the_hub_reaches_vllm_as_a_file_that_may_be_empty(services: dict[str, Any]) -> None:
    vllm = services["vllm"]
    name = Path(vllm["environment"]["HF_TOKEN_PATH"]).name

    assert name in [secret["source"] for secret in vllm["secrets"]]
    assert "HF_TOKEN" not in vllm["environment"]
    assert "HF_TOKEN" not in " ".join(map(str, vllm["command"]))


def test_secrets_reach_containers_as_files_only(services: dict[str, Any]) -> None:
    for name, one in services.items():
        settings = one.get("environment") or {}
        bare = [key for key in settings if re.search("PASSWORD|API_KEY|PEER_KEY|DATABASE_URL|TOKEN(?!S)", key)]
        assert [key for key in bare if not str(settings[key]).startswith("/run/secrets/")] == [], name


def proxied() -> dict[tuple[int, str], tuple[int, str]]:
    """The largest body that the example of TLS takes [bytes], and its block, by port and place."""
    text = (ROOT / "docker/tls/nginx.conf").read_text()
    units, largest = {"k": 1024, "m": 1024**2}, {}
    for server in re.split(r"^    server \{", text, flags=re.MULTILINE)[1:]:
        port = int(re.findall(r"listen (\d+)", server)[0])
        places = re.split(r"^        location (?:= )?(\S.*) \{", server, flags=re.MULTILINE)
        for place, block in zip(["", *places[1::2]], places[::2], strict=True):
            for number, unit in re.findall(r"client_max_body_size (\d+)([km]);", block):
                largest[port, place] = int(number) * units[unit], block
    return largest


def proxied_router(path: str) -> tuple[int, str]:
    """The largest body of a path of the router [bytes], and its block: a pattern comes before a prefix."""
    found = {place: one for (port, place), one in proxied().items() if port == 8443}
    patterns = [place for place in found if place.startswith("~ ") and re.search(place[2:], path)]
    prefixes = [place for place in found if not place.startswith("~ ") and path.startswith(place)]
    return found[patterns[0] if patterns else max(prefixes, key=len)]


def test_the_example_of_tls_takes_bodies_as_large_as_the_suite_does() -> None:
    router, console = RouterSettings.model_construct(), ConsoleSettings.model_construct()
    chats = (chat.CHAT_PATH, responses.PATH, *messages.PATHS)
    expected = {
        "/v1/answers": router.max_body_bytes,
        **dict.fromkeys(chats, router.chat_max_body_bytes),
        **dict.fromkeys(passed.PATHS, router.passed_max_body_bytes),
        "/v1/knowledge": router.knowledge_max_body_bytes,
        files.PATH: router.file_max_bytes + 1024**2,
    }

    assert {path: proxied_router(path)[0] for path in expected} == expected
    assert {place: one for place, (one, _) in proxied().items() if place[0] != 8443} == {
        (8444, ""): router.max_message_bytes + 1024**2,
        (8445, ""): MAX_FORM_BYTES,
        (8445, "/ask"): MAX_QUESTION_BYTES,
        (8445, "/knowledge/text"): 3 * console.max_upload_bytes,
        (8445, "/knowledge/upload"): console.max_upload_bytes + 1024**2,
    }


@pytest.mark.parametrize("path", [chat.CHAT_PATH, responses.PATH, *messages.PATHS, files.PATH])
def test_the_example_of_tls_keeps_no_large_bodies_in_its_small_memory(path: str) -> None:
    assert "proxy_request_buffering off;" in proxied_router(path)[1]


def test_the_example_of_tls_bounds_what_one_address_may_do() -> None:
    text = (ROOT / "docker/tls/nginx.conf").read_text()
    zones = dict(re.findall(r"limit_(conn|req)_zone \$binary_remote_addr zone=(\w+):", text))

    assert set(zones) == {"conn", "req"}
    assert re.search(r"^    limit_conn callers \d+;", text, re.MULTILINE)
    assert re.search(r"^    limit_req zone=requests burst=\d+ nodelay;", text, re.MULTILINE)
    assert re.search(r"location = /login \{\s+limit_req zone=logins burst=\d+ nodelay;", text)
    assert re.findall(r"limit_(?:conn|req)_status (\d+);", text) == ["429", "429"]


def test_services_are_inside_unless_they_have_to_be_reached(services: dict[str, Any]) -> None:
    config = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    networks = config["networks"]

    assert networks["data"]["internal"]
    assert networks["inner"]["internal"]
    assert networks["model"]["internal"] == "${METACOG_MODEL_NETWORK_INTERNAL:-true}"
    published = {name for name, one in services.items() if "published" in (one["networks"] or {})}
    assert published == {"router", "console", "grafana"}
    assert {name for name, one in services.items() if "data" in one["networks"]} == {
        "router",
        "delegation",
        "migrate",
        "postgres",
    }


def test_the_model_servers_answer_to_one_name(services: dict[str, Any]) -> None:
    for name in ("vllm", "vllm-cpu", "llm-cpu"):
        assert services[name]["networks"]["model"]["aliases"] == ["llm"]


def test_every_setting_of_the_compose_file_is_explained_in_the_example() -> None:
    used = set(re.findall(r"(?<!\$)\$\{(\w+)[:}]", (ROOT / "docker-compose.yml").read_text()))
    explained = set(re.findall(r"^#?([A-Z]\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))

    assert used == explained - {"COMPOSE_PROFILES"}


def test_the_defaults_in_the_example_are_those_of_the_compose_file() -> None:
    used = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", (ROOT / "docker-compose.yml").read_text()))
    stated = dict(re.findall(r"^#(METACOG_\w+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE))
    shown_as_example = {"METACOG_ROUTER_MODEL_ALIASES"}

    assert {name: default for name, default in stated.items() if name not in shown_as_example} == {
        name: used[name] for name in stated if name not in shown_as_example
    }


def keys(folder: Path, *words: str) -> str:
    return run("docker/keys.sh", *words, env={"METACOG_SECRETS": str(folder)}).strip()


def test_make_keys_makes_every_secret_of_the_compose_file_and_nothing_twice(tmp_path: Path) -> None:
    wanted = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["secrets"].values()

    told = keys(tmp_path / "s")
    first = {path.name: path.read_text() for path in (tmp_path / "s").iterdir()}
    again = keys(tmp_path / "s")

    assert set(first) == {one["file"].rpartition("/")[2] for one in wanted}
    assert again == ""
    assert {path.name: path.read_text() for path in (tmp_path / "s").iterdir()} == first
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700
    ring = read_keys(tmp_path / "s" / "keys.yaml")
    assert ring.holder(f"Bearer {told.split()[-1]}").name == "me"
    assert ring.holder(f"Bearer {first['peer_key'].strip()}").name == "suite"
    metrics = ring.holder(f"Bearer {first['metrics_key'].strip()}")
    assert (metrics.name, metrics.may(TEACH)) == ("metrics", False)
    assert first["database_password"].strip() in first["database_url"]


def test_a_key_is_rotated_without_a_moment_in_which_neither_is_accepted(tmp_path: Path) -> None:
    keys(tmp_path)
    old = (tmp_path / "peer_key").read_text().strip()

    keys(tmp_path, "rotate", "suite")
    new = (tmp_path / "peer_key").read_text().strip()
    between = read_keys(tmp_path / "keys.yaml")
    keys(tmp_path, "revoke", "suite-old")
    after = read_keys(tmp_path / "keys.yaml")

    assert [between.holder(f"Bearer {key}").name for key in (old, new)] == ["suite-old", "suite"]
    assert after.holder(f"Bearer {new}").name == "suite"
    assert [between.holder(f"Bearer {key}").may(ACT) for key in (old, new)] == [True, True]
    with pytest.raises(Unauthenticated):
        after.holder(f"Bearer {old}")


def test_a_new_key_can_be_barred_from_teaching(tmp_path: Path) -> None:
    keys(tmp_path)

    key = keys(tmp_path, "new", "guest", "no-teach")

    assert not read_keys(tmp_path / "keys.yaml").holder(f"Bearer {key}").may(TEACH)
    assert not read_keys(tmp_path / "keys.yaml").holder(f"Bearer {key}").may(ACT)


def test_the_collectors_pipelines_are_made_of_parts_that_it_has() -> None:
    config = yaml.safe_load((ROOT / "docker/otel/collector.yaml").read_text())

    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(config[kind])


NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_line_of_the_threat_model_names_the_test_that_shows_it() -> None:
    text = (ROOT / "docs/security.md").read_text()
    lines = re.findall(r"^- \*\*.*$", text, re.MULTILINE)

    assert len(lines) > 60
    assert [line for line in lines if not NAMED_TEST.search(line)] == []


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = NAMED_TEST.findall((ROOT / "docs/security.md").read_text())

    assert len(named) > 30
    assert [
        f"{file}::{test}"
        for file, test in named
        if not re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE)
    ] == []
