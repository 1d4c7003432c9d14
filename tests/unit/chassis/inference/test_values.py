import pytest

from inference.config import BackendConfig, Endpoint
from inference.errors import InvalidCall
from inference.values import Call, ModelInfo, WorkKind
from kernel.errors import InvalidArgument

HERE = Endpoint(url="http://llm")
GOOD = {
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 8,
    "stage": "thesis",
    "work": WorkKind.STAGE,
}


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("messages", []),
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("samples", 0),
        ("max_tokens", 0),
        ("max_tokens", True),
        ("floor_tokens", 9),
        ("top_logprobs", 1),
        ("seed", -1),
        ("stop", ["a", ""]),
        ("extra", {"n": 4}),
        ("extra", {"max_completion_tokens": 4}),
    ],
)
def test_a_field_outside_its_range_is_named(field: str, wrong: object) -> None:
    with pytest.raises(InvalidCall) as raised:
        Call(**{**GOOD, field: wrong})  # type: ignore[arg-type]

    assert raised.value.field == field


def test_a_message_without_a_role_is_named_by_its_place() -> None:
    with pytest.raises(InvalidCall) as raised:
        Call(**{**GOOD, "messages": [{"role": "user"}, {"content": "x"}]})  # type: ignore[arg-type]

    assert raised.value.field == "messages[1]"


@pytest.mark.parametrize(("temperature", "drawn"), [(0.0, 1), (0.000001, 1), (0.01, 5)])
def test_greedy_samples_are_drawn_once(temperature: float, drawn: int) -> None:
    assert Call(**{**GOOD, "samples": 5, "temperature": temperature}).drawn == drawn  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1"),
        ("http://llm:8000/v1/", "http://llm:8000/v1"),
        ("https://api.example.com/openai/v1", "https://api.example.com/openai/v1"),
    ],
)
def test_a_url_without_a_path_means_its_first_version(url: str, root: str) -> None:
    assert Endpoint(url=url).api_root == root


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoints": [Endpoint(url="llm:8000")]},
        {"endpoints": [Endpoint(url="ftp://llm")]},
        {"endpoints": [HERE, Endpoint(url="http://llm", weight=0)]},
        {"endpoints": []},
        {"idle_timeout_s": 5.0},
    ],
)
def test_an_unusable_setting_is_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        BackendConfig(**{"name": "here", "endpoints": [HERE], "model": "m", **wrong})  # type: ignore[arg-type]


def test_a_key_is_never_shown() -> None:
    assert "sesame" not in repr(
        BackendConfig(name="here", endpoints=[Endpoint(url="http://llm", api_key="sesame")], model="m")
    )


@pytest.mark.parametrize("listed", ["llama3.2", "llama3.2:latest", "models/llama3.2"])
def test_a_model_answers_to_the_names_that_servers_list_it_under(listed: str) -> None:
    assert ModelInfo(id=listed).answers_to("llama3.2")
    assert not ModelInfo(id=listed).answers_to("llama3")
