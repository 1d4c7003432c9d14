"""`metacog knowledge` against a router with a real encoder and a real PostgreSQL."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path

import pytest

from chassis.serving.auth import TEACH, ApiKey, Keyring
from cli.terminal.exits import FAILED, FORBIDDEN, PARTIAL, UNREACHABLE
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROOT, RunningRouter, cast, environment, router_at

KEY = "mc-of-this-test"


@pytest.fixture(scope="module")
def own_database(new_database: Callable[[], str]) -> str:
    """A database of this file's own."""
    return new_database()


@pytest.fixture
async def router(
    scripted: ScriptedLLM, own_database: str, encoder_url: str, tmp_path: Path
) -> AsyncIterator[RunningRouter]:
    scripted.answer = cast()
    keyring = Keyring([ApiKey(name="ann", sha256=sha256(KEY.encode()).hexdigest(), allowed=frozenset({TEACH}))])
    async with router_at(scripted, own_database, tmp_path, encoder_url=encoder_url, keyring=keyring) as running:
        yield running


async def metacog(*words: str | Path, address: str, key: str = KEY) -> "subprocess.CompletedProcess[str]":
    """Run `metacog knowledge`."""
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "cli", "knowledge", *map(str, words)],
        cwd=ROOT,
        env=environment(METACOG_ROUTER_URL=address, METACOG_API_KEY=key, COLUMNS=200),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def test_what_was_added_is_searched_listed_and_deleted(router: RunningRouter, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "fjord.md").write_text("# The fjord\n\nIt is two hundred metres deep [in places], and never freezes.")
    (folder / "more.jsonl").write_text('{"text": "Simmer the lentils with cumin.", "document_id": "lentils"}\n')
    (folder / "bad.txt").write_bytes(b"\x00")

    added = await metacog("add", folder, "--label", "of=test", "--json", address=router.rest)
    again = await metacog("add", folder / "fjord.md", address=router.rest)
    searched = await metacog("search", "How deep is the fjord?", "--hits", "1", address=router.rest)
    listed = await metacog("list", address=router.rest)
    deleted = await metacog("delete", "lentils", f"{folder}/fjord.md", address=router.rest)
    after = await metacog("list", "--json", address=router.rest)

    assert added.returncode == PARTIAL, "a file was skipped"
    expected_text = json.loads(added.stdout)
    assert [document["document_id"] for document in expected_text["documents"]] == [f"{folder}/fjord.md", "lentils"]
    assert expected_text["documents"][0]["labels"] == {"of": "test"}
    assert expected_text["skipped"] == [f"{folder}/bad.txt: is binary, not text"]
    assert f"skipped {folder}/bad.txt: is binary, not text" in added.stderr
    assert again.returncode == 0
    assert "documents: 1, of which replaced: 1\nchunks embedded: 0 in" in again.stdout
    assert f"{folder}/fjord.md #0" in searched.stdout
    assert "deep [in places]" in searched.stdout
    assert "lentils" not in searched.stdout
    assert "The fjord" in listed.stdout
    assert "2 documents in 2 chunks, 0 verified answers" in listed.stdout
    assert deleted.stdout == f"lentils: 1 chunks deleted\n{folder}/fjord.md: 1 chunks deleted\n"
    assert json.loads(after.stdout)["total_documents"] == 0


async def test_an_error_is_one_clear_line(router: RunningRouter, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Text.")

    stranger = await metacog("add", tmp_path / "a.txt", address=router.rest, key="nobody's")
    missing = await metacog("delete", "nothing", address=router.rest)
    nobody = await metacog("search", "x", address=f"http://{NO_SERVER}")

    assert [run.returncode for run in (stranger, missing, nobody)] == [FORBIDDEN, FAILED, UNREACHABLE]
    assert "0 of 1 documents were added before this:" in stranger.stderr
    assert "set METACOG_API_KEY to a key that it knows" in stranger.stderr
    assert missing.stderr.strip() == "router: DOCUMENT_NOT_FOUND: there is no document 'nothing'"
    assert f"router at http://{NO_SERVER} cannot be reached" in nobody.stderr
