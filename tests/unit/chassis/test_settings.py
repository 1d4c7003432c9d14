from pathlib import Path

import pytest
from pydantic import ValidationError
from pydantic_settings import BaseSettings

from chassis.errors import ConfigurationInvalid
from chassis.settings import ApiSettings, is_loopback, read
from configuration.suite import SuiteSettings
from kernel.activation import PAPER_THRESHOLD, ActivationWeights
from kernel.errors import Code
from kernel.prices import Price
from services.arbiter.settings import Settings as ArbiterSettings
from services.assigner.settings import Settings as AssignerSettings
from services.delegation.settings import Settings as DelegationSettings
from services.router.settings import Settings as RouterSettings

ALL: list[type[BaseSettings]] = [SuiteSettings, RouterSettings, AssignerSettings, ArbiterSettings, DelegationSettings]
API_SETTINGS: list[type[ApiSettings]] = [RouterSettings, AssignerSettings, ArbiterSettings, DelegationSettings]


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is what these functions read; nothing of ours is set in it."""
    for kind in ALL:
        for name in kind.model_fields:
            monkeypatch.delenv(f"{kind.model_config['env_prefix']}{name}".upper(), raising=False)


@pytest.mark.parametrize("kind", ALL)
def test_a_suite_starts_without_any_setting(kind: type[BaseSettings]) -> None:
    assert read(kind) == kind()


def test_a_variable_is_read_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METACOG_ROUTER_THRESHOLD", "0.6")
    monkeypatch.setenv("METACOG_AGENTS_FILE", "/etc/agents.yaml")
    monkeypatch.setenv("METACOG_ROUTER_MODEL_ALIASES", '{"gpt-4o": "metacog"}')

    assert read(RouterSettings).threshold == 0.6
    assert read(RouterSettings).model_aliases == {"gpt-4o": "metacog"}
    assert read(SuiteSettings).agents_file == Path("/etc/agents.yaml")


def test_an_empty_variable_means_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METACOG_ROUTER_REST_PORT", "")
    monkeypatch.setenv("METACOG_KEYS_FILE", "")

    assert read(RouterSettings).rest_port == 8080
    assert read(SuiteSettings).keys_file is None


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("METACOG_ROUTER_THRESHOLD", "1.2"),
        ("METACOG_ROUTER_THRESHOLD", "nan"),
        ("METACOG_ROUTER_THRESHOLD", "high"),
        ("METACOG_ROUTER_REST_PORT", "65536"),
        ("METACOG_ROUTER_REST_PORT", "-1"),
        ("METACOG_ROUTER_TIMEOUT_MS", "0"),
        ("METACOG_ROUTER_MODEL_ALIASES", "gpt-4o=metacog"),
        ("METACOG_ROUTER_MODEL_ALIASES", "[1]"),
    ],
)
def test_an_unusable_value_is_rejected_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    monkeypatch.setenv(variable, text)

    with pytest.raises(ConfigurationInvalid) as raised:
        read(RouterSettings)

    assert raised.value.metadata == {"setting": variable}
    assert raised.value.message.startswith(f"{variable}: ")
    assert raised.value.code is Code.FAILED_PRECONDITION


def test_prices_are_read_by_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "METACOG_PRICES", '{"m": {"prompt": 0.15, "completion": 0.6}, "*": {"prompt": 1, "completion": 4}}'
    )

    assert read(SuiteSettings).prices == {"m": Price(prompt=0.15, completion=0.6), "*": Price(prompt=1, completion=4)}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("m=1", "Expecting value"),
        ('{"m": 0.15}', "the price of 'm' must have `prompt` and `completion`"),
        ('{"m": {"prompt": -1, "completion": 1}}', "the price of 'm': prompt is -1; it must be a number in"),
    ],
)
def test_prices_that_cannot_be_used_are_rejected_with_the_model(
    monkeypatch: pytest.MonkeyPatch, text: str, complaint: str
) -> None:
    monkeypatch.setenv("METACOG_PRICES", text)

    with pytest.raises(ConfigurationInvalid, match=complaint) as raised:
        read(SuiteSettings)

    assert raised.value.message.startswith("METACOG_PRICES: ")
    assert raised.value.metadata == {"setting": "METACOG_PRICES"}


def test_settings_cannot_be_changed_after_they_are_read() -> None:
    settings = read(SuiteSettings)

    with pytest.raises(ValidationError):
        settings.log_level = "DEBUG"


def test_keys_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METACOG_INFERENCE_API_KEY", "sesame")
    monkeypatch.setenv("METACOG_PEER_KEY", "sesame")

    settings = read(SuiteSettings)

    assert "sesame" not in repr(settings)
    assert settings.peer_key.get_secret_value() == "sesame"


@pytest.mark.parametrize("kind", [ApiSettings, *API_SETTINGS])
def test_a_service_listens_on_loopback_unless_set_otherwise(kind: type[ApiSettings]) -> None:
    assert is_loopback(read(kind).host)


def test_no_two_services_want_the_same_port() -> None:
    ports = [port for kind in API_SETTINGS for port in (read(kind).rest_port, read(kind).grpc_port)]

    assert len(ports) == len(set(ports))


def test_services_are_looked_for_where_they_listen() -> None:
    suite = read(SuiteSettings)

    assert suite.assigner_address == f"127.0.0.1:{read(AssignerSettings).grpc_port}"
    assert suite.arbiter_address == f"127.0.0.1:{read(ArbiterSettings).grpc_port}"
    assert suite.delegation_address == f"127.0.0.1:{read(DelegationSettings).grpc_port}"


def test_the_default_weights_and_threshold_are_the_papers() -> None:
    settings = read(RouterSettings)

    assert settings.threshold == PAPER_THRESHOLD
    assert ActivationWeights() == ActivationWeights(
        correctness=settings.weight_correctness,
        conflict=settings.weight_conflict,
        importance=settings.weight_importance,
        experience=settings.weight_experience,
    )


@pytest.mark.parametrize("kind", ALL)
def test_every_setting_is_described(kind: type[SuiteSettings]) -> None:
    assert [name for name, field in kind.model_fields.items() if not field.description] == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "example.org", "localhost.example.org", ""])
def test_everything_else_is_not(host: str) -> None:
    assert not is_loopback(host)


def test_a_secret_is_read_from_a_file_named_like_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "metacog_peer_key").write_text("mc-from-a-file\n")
    (tmp_path / "metacog_database_url").write_text("postgresql+psycopg://metacog@postgres:5432/metacog\n")
    monkeypatch.setenv("METACOG_SECRETS_DIR", str(tmp_path))

    found = read(SuiteSettings)

    assert found.peer_key.get_secret_value() == "mc-from-a-file"
    assert found.database_url == "postgresql+psycopg://metacog@postgres:5432/metacog"


def test_a_variable_stands_above_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "metacog_peer_key").write_text("mc-from-a-file")
    monkeypatch.setenv("METACOG_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("METACOG_PEER_KEY", "mc-from-the-environment")

    assert read(SuiteSettings).peer_key.get_secret_value() == "mc-from-the-environment"
