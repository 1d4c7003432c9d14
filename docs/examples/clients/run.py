"""Ask a running suite by real clients, each with its own defaults, and print works, differs or fails for each.

Each client is installed into an environment of its own, below the folder that is named: their requirements differ.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

URL = os.environ.get("METACOG_URL", "http://127.0.0.1:8080/v1")
KEY = os.environ.get("METACOG_API_KEY", "none")
QUESTION = "What is the capital of France? Answer with one word."
MODELS = ("metacog", "metacog/system1", "metacog-vote")

Check = Callable[[str], bool]


def openai_chat(model: str) -> bool:
    from openai import OpenAI

    with OpenAI(base_url=URL, api_key=KEY) as client:
        answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": QUESTION}])
    return bool(answer.choices[0].message.content) and answer.model == model


def openai_stream(model: str) -> bool:
    from openai import OpenAI

    with OpenAI(base_url=URL, api_key=KEY) as client:
        messages = [{"role": "user", "content": QUESTION}]
        with client.chat.completions.create(model=model, messages=messages, stream=True) as chunks:
            text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
    return bool(text)


def openai_json(model: str) -> bool:
    from openai import OpenAI
    from pydantic import BaseModel

    class City(BaseModel):
        name: str

    with OpenAI(base_url=URL, api_key=KEY) as client:
        messages = [{"role": "user", "content": QUESTION}]
        answer = client.chat.completions.parse(model=model, messages=messages, response_format=City)
    return answer.choices[0].message.parsed is not None


def openai_responses(model: str) -> bool:
    from openai import OpenAI

    with OpenAI(base_url=URL, api_key=KEY) as client:
        first = client.responses.create(model=model, input=QUESTION)
        second = client.responses.create(model=model, input="And of Italy?", previous_response_id=first.id)
    return bool(first.output_text and second.output_text)


def openai_embeddings(model: str) -> bool:
    from openai import OpenAI

    with OpenAI(base_url=URL, api_key=KEY) as client:
        return len(client.embeddings.create(model="metacog", input=["one", "two"]).data) == 2


def anthropic_messages(model: str) -> bool:
    from anthropic import Anthropic

    with Anthropic(base_url=URL.removesuffix("/v1"), api_key=KEY) as client:
        messages = [{"role": "user", "content": QUESTION}]
        answer = client.messages.create(model=model, max_tokens=200, messages=messages)
    return bool(answer.content[0].text)


def anthropic_stream(model: str) -> bool:
    from anthropic import Anthropic

    with Anthropic(base_url=URL.removesuffix("/v1"), api_key=KEY) as client:
        messages = [{"role": "user", "content": QUESTION}]
        with client.messages.stream(model=model, max_tokens=200, messages=messages) as stream:
            return bool("".join(stream.text_stream))


def langchain_chat(model: str) -> bool:
    from langchain_openai import ChatOpenAI

    return bool(ChatOpenAI(model=model, base_url=URL, api_key=KEY).invoke(QUESTION).content)


def llama_index_chat(model: str) -> bool:
    from llama_index.llms.openai_like import OpenAILike

    return bool(OpenAILike(model=model, api_base=URL, api_key=KEY, is_chat_model=True).complete(QUESTION).text)


def pydantic_ai_agent(model: str) -> bool:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel(model, provider=OpenAIProvider(base_url=URL, api_key=KEY)))
    return bool(agent.run_sync(QUESTION).output)


def instructor_json(model: str) -> bool:
    import instructor
    from openai import OpenAI
    from pydantic import BaseModel

    class City(BaseModel):
        name: str

    client = instructor.from_openai(OpenAI(base_url=URL, api_key=KEY), mode=instructor.Mode.JSON_SCHEMA)
    city = client.chat.completions.create(
        model=model, response_model=City, messages=[{"role": "user", "content": QUESTION}]
    )
    return bool(city.name)


def openai_agents(model: str) -> bool:
    from agents import Agent, Runner, set_default_openai_client, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    set_default_openai_client(AsyncOpenAI(base_url=URL, api_key=KEY))
    return bool(Runner.run_sync(Agent(name="guide", model=model), QUESTION).final_output)


def litellm_chat(model: str) -> bool:
    import litellm

    messages = [{"role": "user", "content": QUESTION}]
    answer = litellm.completion(model=f"openai/{model}", api_base=URL, api_key=KEY, messages=messages)
    return bool(answer.choices[0].message.content)


# Checks by the package that they need, as pip names it.
CLIENTS: dict[str, dict[str, Check]] = {
    "openai": {
        "chat": openai_chat,
        "stream": openai_stream,
        "JSON by schema": openai_json,
        "responses": openai_responses,
        "embeddings": openai_embeddings,
    },
    "anthropic": {"messages": anthropic_messages, "stream": anthropic_stream},
    "langchain-openai": {"chat": langchain_chat},
    "llama-index-llms-openai-like": {"chat": llama_index_chat},
    "pydantic-ai-slim[openai]": {"agent": pydantic_ai_agent},
    "instructor": {"JSON by schema": instructor_json},
    "openai-agents": {"agent": openai_agents},
    "litellm": {"chat": litellm_chat},
}


def python_of(package: str, folder: Path) -> str:
    """Return the Python that has a client, which is installed where it is not there yet."""
    home = folder / package.partition("[")[0]
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    if subprocess.run([python, "-m", "pip", "show", "-q", home.name], capture_output=True).returncode:
        subprocess.run([python, "-m", "pip", "install", "-q", package], check=True)
    return str(python)


def checked(package: str) -> int:
    """Print one line a check and model; return 1 where one fails."""
    failed = False
    for name, check in CLIENTS[package].items():
        for name_of_model in MODELS[:1] if check is openai_embeddings else MODELS:
            # What is before a slash is a provider to openai-agents, so it takes the same names with a hyphen.
            model = name_of_model.replace("/", "-") if check is openai_agents else name_of_model
            began, problem = time.monotonic(), ""
            try:
                result = "works" if check(model) else "differs"
            except Exception as error:  # noqa: BLE001 - any error of a client is a line of the table
                result, problem, failed = "fails", f"  {type(error).__name__}: {str(error)[:160]}", True
            client = f"{package} {version(package.partition('[')[0])}"
            print(f"{result:8}{client:45}{name:16}{model:17}{time.monotonic() - began:6.1f} s{problem}", flush=True)
    return int(failed)


def main(folder: Path, packages: list[str]) -> int:
    """Ask by all clients, or by those that are named; return 1 where one fails, or cannot be installed."""
    failed = False
    for package in packages or CLIENTS:
        try:
            run = subprocess.run([python_of(package, folder), __file__, "--here", package])
        except subprocess.CalledProcessError:
            print(f"fails   {package}: it cannot be installed", flush=True)
            failed = True
        else:
            failed = failed or bool(run.returncode)
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1] == "--here":
        sys.exit(checked(sys.argv[2]))
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
