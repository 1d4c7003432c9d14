from dataclasses import replace
from pathlib import Path

import pytest

from configuration.services import SERVICES
from embedded.errors import SuiteError
from embedded.plan import plan, required_ports, shared_environment
from embedded.settings import DEFAULT_PORTS, SuiteSettings, UpOptions, read_settings
from embedded.supervision.parts import ProcessSpec, read_plan, write_plan
from embedded.vllm import VllmSettings, check_vllm

SETTINGS = SuiteSettings(home=Path("/srv/metacog"))


def named(parts: list[ProcessSpec]) -> dict[str, ProcessSpec]:
    return {part.name: part for part in parts}


def test_the_whole_suite_is_planned_when_nothing_is_set() -> None:
    parts = named(plan(SETTINGS, "/models/small.gguf"))

    assert parts.keys() == {*SERVICES} | {
        "postgres",
        "llm",
        "encoder",
        *(f"{name}-migrate" for name in SERVICES),
        "console",
    }
    assert parts["router-migrate"].after == ("postgres",)
    assert {name: parts[name].after for name in SERVICES} == {name: (f"{name}-migrate",) for name in SERVICES}
    assert parts["router"].ready_url == "http://127.0.0.1:8080/readyz"
    assert parts["llm"].ready_url == "http://127.0.0.1:8000/health"


def test_a_server_of_the_users_own_takes_the_place_of_each_part() -> None:
    own = replace(
        SETTINGS,
        database_url="postgresql+psycopg://me@db/metacog",
        inference_url="http://gpu:8000/v1",
        inference_model="llama",
        encoder_url="http://gpu:8001/v1",
    )

    parts = named(plan(own, ""))

    assert parts.keys() == {*SERVICES, "console"} | {f"{name}-migrate" for name in SERVICES}
    assert parts["router-migrate"].after == ()
    assert parts["router"].environment["METACOG_INFERENCE_URL"] == "http://gpu:8000/v1"
    assert parts["router"].environment["METACOG_INFERENCE_MODEL"] == "llama"
    assert parts["router"].environment["METACOG_ENCODER_URL"] == "http://gpu:8001/v1"
    assert parts["router"].environment["METACOG_DATABASE_URL"] == "postgresql+psycopg://me@db/metacog"


def test_parts_that_receive_requests_stop_before_parts_that_serve_them() -> None:
    parts = named(plan(SETTINGS, ""))

    assert parts["router"].wave > parts["arbiter"].wave > parts["llm"].wave > parts["postgres"].wave


def test_every_part_receives_the_addresses_of_the_others() -> None:
    moved = replace(SETTINGS, ports=DEFAULT_PORTS | {"METACOG_ARBITER_GRPC_PORT": 51000, "METACOG_ENCODER_PORT": 9001})

    variables = shared_environment(moved)

    assert variables["METACOG_ARBITER_ADDRESS"] == "127.0.0.1:51000"
    assert variables["METACOG_ASSIGNER_ADDRESS"] == "127.0.0.1:50052"
    assert variables["METACOG_ASSIGNER_DELEGATION_ADDRESS"] == variables["METACOG_DELEGATION_ADDRESS"]
    assert variables["METACOG_ENCODER_URL"] == "http://127.0.0.1:9001/v1"
    assert variables["METACOG_ROUTER_URL"] == "http://127.0.0.1:8080"


def test_no_key_is_written_into_the_plan() -> None:
    parts = plan(replace(SETTINGS, inference_key="secret key"), "")

    assert not any("secret key" in str(part) for part in parts)


def test_ports_of_parts_that_are_not_started_are_not_required() -> None:
    own = replace(SETTINGS, inference_url="http://gpu:8000/v1", encoder_url="http://gpu:8001/v1")

    assert {port.setting for port in required_ports(SETTINGS)} == DEFAULT_PORTS.keys()
    assert {port.number for port in required_ports(own)}.isdisjoint({8000, 8001})


def test_a_plan_reads_back_as_it_was_written(tmp_path: Path) -> None:
    parts = plan(SETTINGS, "/models/small.gguf")

    write_plan(tmp_path / "plan.json", parts)

    assert read_plan(tmp_path / "plan.json") == parts
    assert (tmp_path / "plan.json").stat().st_mode & 0o077 == 0


def test_the_command_line_wins_over_the_environment() -> None:
    environment = {"METACOG_INFERENCE_URL": "http://one/v1", "METACOG_INFERENCE_MODEL": "a"}

    settings = read_settings(environment, UpOptions(inference_url="http://two/v1/", inference_model="b"))

    assert (settings.inference_url, settings.inference_model) == ("http://two/v1", "b")


def test_an_empty_variable_is_an_unset_one() -> None:
    settings = read_settings({"METACOG_DATABASE_URL": "", "METACOG_ROUTER_REST_PORT": "", "METACOG_HOME": ""})

    assert settings.database_url is None
    assert settings.ports["METACOG_ROUTER_REST_PORT"] == 8080
    assert settings.home.name == ".metacog"


@pytest.mark.parametrize("text", ["eighty", "0", "65536", "-1", "80.5"])
def test_an_invalid_port_raises_an_error_with_its_setting(text: str) -> None:
    with pytest.raises(SuiteError, match="METACOG_CONSOLE_PORT"):
        read_settings({"METACOG_CONSOLE_PORT": text})


def test_a_model_file_and_a_model_server_exclude_each_other() -> None:
    with pytest.raises(SuiteError, match="give one of them"):
        read_settings({}, UpOptions(inference_url="http://gpu/v1", model="x.gguf"))


def test_a_file_named_from_the_users_folder_is_found_from_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    settings = read_settings({"METACOG_AGENTS_FILE": "mine/agents.yaml", "METACOG_KEYS_FILE": ""})

    assert shared_environment(settings)["METACOG_AGENTS_FILE"] == str(tmp_path / "mine" / "agents.yaml")
    assert "METACOG_KEYS_FILE" not in shared_environment(settings)


def test_vllm_takes_the_place_of_llama_cpp() -> None:
    environment = {"METACOG_VLLM_PYTHON": "/opt/vllm/bin/python", "METACOG_VLLM_ARGS": "--max-model-len 4096"}
    settings = read_settings(environment, UpOptions(backend="vllm", model="Qwen/Qwen3-4B"))

    parts = named(plan(settings, ""))

    assert "llm" not in parts
    assert parts["vllm"].command == (
        *("/opt/vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", "Qwen/Qwen3-4B", "--served-model-name", "Qwen/Qwen3-4B", "--host", "127.0.0.1", "--port", "8000"),
        *("--max-model-len", "4096"),
    )
    assert parts["vllm"].environment["PYTHONPATH"] == "", "its packages are its own"
    assert parts["router"].environment["METACOG_INFERENCE_MODEL"] == "Qwen/Qwen3-4B"


def test_a_folder_is_a_model_for_vllm_wherever_the_parts_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    monkeypatch.chdir(tmp_path)

    settings = read_settings({}, UpOptions(backend="vllm", model="weights", inference_model="mine"))

    assert settings.vllm is not None
    assert settings.vllm.model == str(tmp_path / "weights")
    assert shared_environment(settings)["METACOG_INFERENCE_MODEL"] == "mine"


def test_the_error_for_missing_vllm_describes_how_to_install_it() -> None:
    with pytest.raises(SuiteError, match=r"(?s)does not have vLLM.*METACOG_VLLM_PYTHON"):
        check_vllm(VllmSettings(python="/nowhere/python", model="m"))


@pytest.mark.parametrize(("model", "arguments"), [(None, ""), ("m", "'unbalanced")])
def test_invalid_options_of_vllm_raise_an_error(model: str | None, arguments: str) -> None:
    with pytest.raises(SuiteError):
        read_settings({"METACOG_VLLM_ARGS": arguments}, UpOptions(backend="vllm", model=model))


def test_with_a_catalogue_of_models_no_model_server_is_started() -> None:
    settings = read_settings({}, UpOptions(models="models.yaml"))

    assert "llm" not in [part.name for part in plan(settings, "")]
    assert shared_environment(settings)["METACOG_MODELS_FILE"] == str(Path("models.yaml").absolute())
    assert "METACOG_INFERENCE_PORT" not in [port.setting for port in required_ports(settings)]


@pytest.mark.parametrize(
    "options",
    [
        UpOptions(models="models.yaml", inference_url="http://gpu/v1"),
        UpOptions(models="models.yaml", model="x.gguf"),
        UpOptions(models="models.yaml", backend="vllm"),
    ],
)
def test_a_catalogue_of_models_beside_another_model_server_is_rejected(options: UpOptions) -> None:
    with pytest.raises(SuiteError, match="lists the models; leave out"):
        read_settings({}, options)
