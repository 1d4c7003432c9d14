"""What the database will never take is kept for a person to look at, and never fills the disk."""

import os
import time
from pathlib import Path

import httpx
import orjson

from chassis.journal.rejected import FILE_BYTES, MOST_BYTES, MOST_FILES
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import process, until

LINE = b'{"run_id": "torn' + b"x" * (1 << 20)
LINES = 100


def spool_of(home: Path) -> Path:
    """The folder in which a router on a port of the system's choice keeps runs."""
    (home / "spool").mkdir()
    return home / "spool"


async def counted(client: httpx.AsyncClient, name: str) -> float:
    lines = (await client.get("/metrics")).text.splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith(f"metacog_journal_{name} "))


async def test_torn_runs_of_a_crash_fill_no_disk_and_what_is_removed_is_counted_and_logged(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    spool = spool_of(tmp_path)
    with (spool / "runs-0.jsonl").open("wb") as file:
        file.writelines(LINE[:-6] + b"%05d\n" % number for number in range(LINES))

    settings = {"METACOG_HOME": tmp_path, "METACOG_DATABASE_URL": database_url, "METACOG_INFERENCE_URL": scripted.url}
    async with process("router", **settings) as router, httpx.AsyncClient(base_url=router.rest) as client:

        async def is_written_back() -> bool:
            return (spool / "runs-0.jsonl").stat().st_size == 0 and await counted(client, "rejected_total") == LINES

        await until(is_written_back)
        removed = await counted(client, "rejected_removed_total")
        told = await router.until_said("rejected runs were removed")

    files = sorted(spool.glob("*.rejected"))
    kept = b"".join(file.read_bytes() for file in files).splitlines()
    assert sum(file.stat().st_size for file in files) <= MOST_BYTES
    assert max(file.stat().st_size for file in files) <= FILE_BYTES
    assert len(files) <= MOST_FILES
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert [int(line[-5:]) for line in kept] == list(range(LINES - len(kept), LINES))  # the oldest were removed
    assert (len(kept) >= 40, removed, told["count"] > 0) == (True, LINES - len(kept), True)


async def test_a_run_larger_than_a_file_may_be_is_counted_and_not_kept(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    spool = spool_of(tmp_path)
    (spool / "runs-0.jsonl").write_bytes(b"{" + b"x" * FILE_BYTES + b"\n{torn\n")

    settings = {"METACOG_HOME": tmp_path, "METACOG_DATABASE_URL": database_url, "METACOG_INFERENCE_URL": scripted.url}
    async with process("router", **settings) as router, httpx.AsyncClient(base_url=router.rest) as client:

        async def both_are_counted() -> bool:
            return await counted(client, "rejected_total") == 2

        await until(both_are_counted)
        removed = await counted(client, "rejected_removed_total")

    assert [file.read_bytes() for file in spool.glob("*.rejected")] == [b"{torn\n"]
    assert removed == 1


async def test_what_was_set_aside_goes_with_the_runs_of_its_age(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    spool = spool_of(tmp_path)
    days = {"runs-0.rejected": 40, "runs-0.000000000000001.rejected": 29.5, "runs-0.000000000000002.rejected": 10}
    for name, age in days.items():
        (spool / name).write_bytes(orjson.dumps({"run_id": name}) + b"\n")
        os.utime(spool / name, (time.time() - age * 86_400,) * 2)
    (spool / "runs-00.rejected").write_bytes(b"of another router\n")
    os.utime(spool / "runs-00.rejected", (1, 1))

    settings = {"METACOG_HOME": tmp_path, "METACOG_DATABASE_URL": database_url, "METACOG_INFERENCE_URL": scripted.url}
    async with process("router", **settings, METACOG_ROUTER_RETENTION_DAYS=30) as router:
        await router.until_said("rejected runs were removed")

    assert sorted(file.name for file in spool.glob("*")) == ["runs-0.000000000000002.rejected", "runs-00.rejected"]
