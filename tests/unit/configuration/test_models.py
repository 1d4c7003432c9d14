import os
from pathlib import Path

import pytest

from chassis.errors import ConfigurationInvalid
from configuration.agents import AgentConfig
from configuration.models import ModelCatalogue, ModelConfig, ModelEndpoint, Models, key_of, read_models, unlisted_model
from kernel.prices import Price

ROOT = Path(__file__).parents[3]
GOOD = """\
default: strong
models:
  - name: small
    served_as: qwen
    aliases: [gpt-4o-mini]
    endpoints:
      - {url: "http://one:8000/v1", weight: 2}
      - {url: "http://two:8000/v1"}
    price: {prompt: 0.1, completion: 0.4}
    pools: {STAGE: {in_flight: 8, queue: 0}}
    priorities: {SYSTEM_ONE: -1}
  - name: strong
    endpoints: [{url: "https://models.example.org/v1", api_key_env: STRONG_KEY}]
    features: {tools: false}
"""
KEYS = {"STRONG_KEY": "sesame"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models.yaml"
    path.write_text(GOOD)
    return path


def write(path: Path, source: str) -> None:
    """Write a file that is seen to have changed, however fast the test is."""
    later = os.stat(path).st_mtime_ns + 1_000_000_000
    path.write_text(source)
    os.utime(path, ns=(later, later))


def test_models_are_read_as_they_are_written_the_default_one_first(file: Path) -> None:
    strong, small = read_models(file, environment=KEYS.get).models

    assert (strong.name, strong.served_name, strong.tariff, strong.features.tools) == ("strong", "strong", None, False)
    assert (small.served_name, small.tariff) == ("qwen", Price(prompt=0.1, completion=0.4))
    assert [(endpoint.url, endpoint.weight) for endpoint in small.endpoints] == [
        ("http://one:8000/v1", 2),
        ("http://two:8000/v1", 1),
    ]
    assert (small.pools["STAGE"].in_flight, small.priorities) == (8, {"SYSTEM_ONE": -1})


def test_a_model_is_found_by_its_name_and_by_its_aliases(file: Path) -> None:
    catalogue = read_models(file, environment=KEYS.get)

    found = [catalogue.named(name) for name in ("small", "gpt-4o-mini", "", "qwen")]

    assert [model and model.name for model in found] == ["small", "small", "strong", None]


def test_the_key_of_an_endpoint_is_read_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("open\n")

    assert key_of(ModelEndpoint(url="http://one/v1", api_key_env="STRONG_KEY"), KEYS.get) == "sesame"
    assert key_of(ModelEndpoint(url="http://one/v1", api_key_file=str(tmp_path / "key"))) == "open"
    assert key_of(ModelEndpoint(url="http://one/v1")) is None


def test_the_version_follows_the_content_and_not_the_layout(file: Path) -> None:
    before = read_models(file, environment=KEYS.get)
    file.write_text("# a comment\n" + GOOD)
    same = read_models(file, environment=KEYS.get)
    file.write_text(GOOD.replace("weight: 2", "weight: 3"))
    changed = read_models(file, environment=KEYS.get)

    assert before.version == same.version != changed.version


MODEL = "models:\n  - name: a\n    endpoints: [{url: 'http://one/v1'}]\n"


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("models: []\n", 1, "at least one model is needed"),
        ("models:\n  - name: a\n", 2, "models.0.endpoints"),
        ("models:\n  - name: a\n    endpoints: []\n", 3, "models.0.endpoints"),
        (MODEL + "    api_key: sesame\n", 4, "models.0.api_key: there is no such key"),
        (MODEL + "    price: {prompt: -1, completion: 1}\n", 4, "models.0.price.prompt"),
        (MODEL + "    price: {prompt: 1}\n", 4, "models.0.price.completion"),
        (MODEL + "    pools: {THINKING: {in_flight: 1}}\n", 4, "models.0.pools"),
        (MODEL + "    context_tokens: 0\n", 4, "models.0.context_tokens"),
        (MODEL + "  - name: b\n    aliases: [a]\n    endpoints: [{url: 'http://one/v1'}]\n", 4, "'a' is used twice"),
        (MODEL + "default: b\n", 4, "default: 'b' is no model of this file; there are a"),
        (MODEL.replace("name: a", "name: metacog-vote"), 2, "is one of the router's own models"),
        (MODEL.replace("name: a", "name: a b"), 2, "must be letters, digits"),
        (MODEL.replace("http://one/v1", "one:8000"), 3, "must be an http or https URL"),
        (MODEL.replace("http://one", "http://ada:sesame@one"), 3, "it holds a user or password"),
        (MODEL.replace("/v1'", "/v1', weight: 0"), 3, "models.0.endpoints.0.weight"),
        (MODEL.replace("/v1'", "/v1', api_key_env: NO_KEY"), 3, "the environment variable NO_KEY is not set"),
        (MODEL.replace("/v1'", "/v1', api_key_file: /nowhere/key"), 3, "/nowhere/key cannot be read"),
    ],
)
def test_an_unusable_file_is_rejected_with_line_and_reason(file: Path, source: str, line: int, reason: str) -> None:
    file.write_text(source)

    with pytest.raises(ConfigurationInvalid) as raised:
        read_models(file, environment=KEYS.get)

    assert raised.value.message.startswith(f"{file}, line {line}: ")
    assert reason in raised.value.metadata["problem"]
    assert "sesame" not in raised.value.message


@pytest.mark.parametrize("name", ["models.example.yaml", "models.poster.yaml"])
def test_the_catalogues_that_come_with_the_suite_can_be_read(name: str) -> None:
    assert read_models(ROOT / "config" / name, environment=lambda _: "a key")


async def test_an_invalid_change_leaves_the_models_that_were_read_before(file: Path) -> None:
    write(file, MODEL)
    models = Models(file)
    write(file, "models: []\n")

    assert models.current().default.name == "a"
    with pytest.raises(ConfigurationInvalid, match="at least one model is needed; the models read before are in use"):
        await models.check()


def test_an_agent_whose_model_is_not_listed_is_named() -> None:
    listed = ModelConfig(name="small", endpoints=(ModelEndpoint(url="http://one/v1"),))
    agents = [AgentConfig(id="ada"), AgentConfig(id="ben", model="strong")]

    problem = unlisted_model(agents, ModelCatalogue(version="1", models=(listed,)))

    assert problem == "model 'strong' of agent 'ben' is not in models.yaml; there are small"
    assert unlisted_model(agents, ModelCatalogue(version="1", models=(listed,), names_closed=False)) == ""
