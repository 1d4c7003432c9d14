"""Every command and every code block of the documents that a newcomer follows, run against the whole suite."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Suite

PAGES = ("README.md", "docs/quickstart.md", "docs/cli.md", "docs/exam.md", "docs/rest.md", "docs/grpc.md")
# Languages of blocks that hold nothing to run.
SHOWN = ("text", "json", "yaml")
PRELUDE = Path(__file__).with_name("prelude.sh")
WITHIN_S = 280

STAGES = ("THESIS", "ANTITHESIS", "RESOLUTION", "SYNTHESIS")

# Expected output of a block, by words in the block.
EXPECTED = {
    "make test": r"pytest",
    'model="metacog", messages': r"SYSTEM_(ONE|TWO) ",
    "stage_finished": r"(?s)" + ".*".join(f"stage_finished {stage}" for stage in STAGES),
    "metacog status": r"(?s)router\s+ready.*no problem was found",
    "--strategy dialectic --explain": r"(?s)thesis: expert .*synthesis: synthesizer .*state after each stage",
    "metacog route --msv": r"(?s)SYSTEM TWO.*total fitness 4\.300",
    "metacog feedback": r"(?s)stored; used by.*documents: 1.*glossary\.md #",
    "requests.jsonl": r"2 of 2 answered",
    "models check": r"the models can be used",
    "metacog exam": r"(?s)share right.*model:\S+ +commonsense_inference.*model:\S+: 2 labels sent",
    "qwen3:8b": r"model qwen3:8b at http://127\.0\.0\.1:11434/v1",
    "METACOG_VLLM_PYTHON": r"vllm\.entrypoints\.openai\.api_server --model Qwen/.* --max-model-len 16384",
    "/path/to/model.gguf": r"--model \S+/model\.gguf",
    "make keys": r"(?s)vllm.*\"ready\":true",
    '"correctness": 2}': r"MSV_OUT_OF_RANGE",
    "text/event-stream": r"(?s)event: run_started.*event: answer_token.*event: run_finished",
    '"conflict": 0.72, "importance": 0.85}}\'': r'"system":"SYSTEM_TWO".*"value":0\.5575',
    "knowledge:search": r"(?s)two hundred metres.*\"chunks\":1",
    "v1/assignments": r'"total_fitness":4\.3',
    "v1/measurements": r'"entropy_solver":0\.6365.*"entropy_arbiter":0\.0',
    "router_pb2.RouteRequest(msv": r"ROUTE_SYSTEM_TWO 0\.\d+",
    "GetRunRequest": r"NOT_FOUND RUN_NOT_FOUND",
    "list_services": r"metacog\.arbiter\.v1\.ArbiterService",
}

pytestmark = pytest.mark.timeout(300)


def blocks() -> Iterator[tuple[str, int, str, str]]:
    """Page, number, language and text of every code block."""
    for page in PAGES:
        found = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
        for number, (language, text) in enumerate(found, start=1):
            yield page, number, language, text


@pytest.fixture(scope="module")
def reader_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the repository's root looks to who follows the documents, which may be written to."""
    folder = tmp_path_factory.mktemp("reader_folder")
    for name in (".venv", ".env.example", "config", "docs"):
        (folder / name).symlink_to(ROOT / name)
    # What the pages assume to be there: a model file, and an environment that has vLLM. Nothing is started with them.
    (folder / "model.gguf").write_bytes(b"GGUF")
    stub = folder / "vllm"
    (stub / "bin").mkdir(parents=True)
    (stub / "vllm.py").touch()
    python = stub / "bin" / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={stub} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return folder


def ran(suite: Suite, reader_folder: Path, language: str, text: str) -> "subprocess.CompletedProcess[str]":
    """The block, run as its reader would."""
    relocated = suite.relocated(text).replace("/path/to/", f"{reader_folder}/")
    if language == "python":
        command = [sys.executable, "-c", relocated]
    else:
        command = ["bash", "-c", f'. "{PRELUDE}"\n{relocated}']
    tools = str(Path(sys.executable).parent)
    environment = {
        **suite.environment,
        "ROOT": str(ROOT),
        "HOME": str(reader_folder),
        "PATH": f"{tools}:{os.environ['PATH']}",
        "COLUMNS": "120",
        **({"SHOWS_REFUSAL": "1"} if '"correctness": 2}' in text else {}),
    }
    return subprocess.run(
        command,
        env=environment,
        cwd=reader_folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


@pytest.mark.parametrize(("page", "number", "language", "text"), list(blocks()), ids=lambda part: str(part)[:30])
def test_the_code_blocks_of_the_documents_work(
    suite: Suite, reader_folder: Path, page: str, number: int, language: str, text: str
) -> None:
    assert language in ("sh", "python", *SHOWN), (
        f"{page}, block {number}: give its language: sh, python, text, json or yaml"
    )
    if language in SHOWN:
        return

    done = ran(suite, reader_folder, language, text)

    output = done.stdout + done.stderr
    assert done.returncode == 0, f"{page}, block {number}:\n{text}\n{output}"
    assert output.strip()
    for words, pattern in EXPECTED.items():
        if words in text:
            assert re.search(pattern, output), f"{page}, block {number} does not print {pattern}:\n{output}"


def test_every_expectation_is_about_a_block() -> None:
    texts = [text for *_, text in blocks()]

    assert [words for words in EXPECTED if not any(words in text for text in texts)] == []
