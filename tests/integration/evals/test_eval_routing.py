"""`metacog eval routing` against a real router over a scripted model: whole, interrupted, and asked wrongly."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from chassis.serving.auth import ApiKey, Keyring
from cli.__main__ import app
from evals.errors import RecordsUnusable, ServiceUnreachable
from evals.items import read_sets
from evals.router_client import RouterClient
from evals.routing.files import CURVES, OUTCOMES, RECORDS, REPORT, SCORED
from evals.routing.requests import ASSESSORS, Plan
from evals.routing.session import record, rewrite, source
from kernel.errors import MetacogError
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM, Stall
from tests.support.stack import NO_SERVER, ROOT, Body, RunningRouter, environment, router_at

ITEMS = 3
# Two sets of three items: four assessors for each, and the single-pass answer.
REQUESTS = 2 * ITEMS * (len(ASSESSORS) + 1)


def sums() -> list[Body]:
    about = {"dataset": "sums", "dimension": "math_computation", "difficulty": "easy", "answer_type": "number"}
    return [{"id": f"sums-{n}", "question": f"What is {n} + {n}?", "answer": str(2 * n), **about} for n in range(1, 5)]


def birds() -> list[Body]:
    about = {"dataset": "birds", "context": "All birds of this list fly.", "answer_type": "boolean"}
    return [
        {"id": f"birds-{n}", "question": f"Does bird number {n} fly?", "answer": "yes", **about} for n in range(1, 5)
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with two data sets."""
    folder = tmp_path / "questions"
    folder.mkdir()
    for name, items in (("sums", sums()), ("birds", birds())):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    return folder


def says(body: Body) -> Sequence[str]:
    """Right but on the second item of each set; there the rating is low and the short samples differ."""
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    knows, count = "2 + 2" not in prompt and "number 2" not in prompt, body.get("n") or 1
    if "response_format" in body:
        rates_the_answer = "logic" in prompt
        return [
            json.dumps({"r": [90 if knows else 20] * 3 + [10 if knows else 90] * 4 if rates_the_answer else [10] * 3})
        ]
    if "bird" in prompt:
        text = "yes" if knows else "no"
    else:
        text = next((str(2 * n) for n in range(1, 5) if f"{n} + {n}" in prompt), "") if knows else "5"
    if "Do not explain" in prompt:
        return [text] * count if knows else ["red", "blue", "green", "seven", "nobody"][:count]
    return [f"Let me think.\nFinal Answer: {text}"] * count


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    """A router on a model that errs on one item of three."""
    scripted.answer = says
    async with router_at(scripted, database_url, tmp_path) as running:
        yield running


async def evaluated(url: str, data: Path, out: Path, **more: Any) -> str:  # noqa: ANN401
    """The report of an evaluation of the router at `url`."""
    key, items = more.pop("key", ""), more.pop("items", ITEMS)
    plan = Plan(items=read_sets(data, [], items), **more)
    async with RouterClient(url, key=key, timeout_s=60) as router:
        await record(plan, source(data, plan, ITEMS), router, out, lambda: None)
    return rewrite(out)[1]


async def started(*words: object) -> asyncio.subprocess.Process:
    """The command, as a person types it."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *["-m", "cli", "eval", "routing", *map(str, words)],
        cwd=ROOT,
        env=environment(COLUMNS=200, NO_COLOR=1),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def replies(out: Path) -> list[tuple[str, str]]:
    """Item and assessor of each recorded reply."""
    lines = [json.loads(line) for line in (out / RECORDS).read_text().splitlines()]
    return [(line["item"], line["asked"]) for line in lines if line["kind"] == "reply"]


async def test_every_assessor_is_measured_on_every_item(router: RunningRouter, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    process = await started("--data", data, "--items", ITEMS, "--router", router.rest, "--out", out)
    said, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    assert len(replies(out)) == len(set(replies(out))) == REQUESTS
    assert "| all | 6 | 33 % [10, 70] | 0 |" in said.decode()
    # The two wrong items are told from the four right ones by what the model does, and by its rating.
    for assessor in ASSESSORS:
        assert f"| {assessor} | 6 | 1.00 [" in said.decode()
    assert {file.name for file in out.iterdir()} == {RECORDS, REPORT, SCORED, CURVES, OUTCOMES}


async def test_a_quick_look_needs_no_data_and_writes_a_report(router: RunningRouter, tmp_path: Path) -> None:
    out = tmp_path / "out"

    process = await started("--quick", "--router", router.rest, "--out", out)
    said, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    assert "`metacog eval routing --quick --assessors hybrid --seed 7 --out DIR`" in said.decode()
    assert "| all | 36 |" in said.decode()
    assert (out / REPORT).exists()


async def test_when_time_is_up_what_was_recorded_is_reported(router: RunningRouter, data: Path, tmp_path: Path) -> None:
    plan = Plan(items=read_sets(data, [], ITEMS), assessors=("probe",))
    served = asyncio.Event()
    async with RouterClient(router.rest, timeout_s=60) as client:
        await record(plan, source(data, plan, ITEMS), client, tmp_path / "out", served.set, seconds=0)

    assert not served.is_set()
    assert replies(tmp_path / "out") == []


async def test_the_report_is_made_again_without_a_router(router: RunningRouter, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = await evaluated(router.rest, data, out, assessors=("probe",))
    (out / REPORT).unlink()

    process = await started("--report-only", out / RECORDS, "--router", f"http://{NO_SERVER}")
    said, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    assert said.decode().strip() == first.strip() == (out / REPORT).read_text().strip()


async def test_a_killed_run_goes_on_without_repeating_a_call(
    router: RunningRouter, scripted: ScriptedLLM, data: Path, tmp_path: Path
) -> None:
    out, records = tmp_path / "out", tmp_path / "out" / RECORDS
    await evaluated(router.rest, data, out)
    whole, calls = records.read_bytes().splitlines(keepends=True), len(scripted.bodies)
    half = b"".join(whole[: len(whole) // 2])
    records.write_bytes(half + whole[len(whole) // 2][:40])

    await evaluated(router.rest, data, out)

    assert records.read_bytes().startswith(half)
    assert len(replies(out)) == len(set(replies(out))) == REQUESTS
    assert 0 < len(scripted.bodies) - calls < 0.7 * calls


async def test_an_interruption_leaves_records_to_go_on_from(
    router: RunningRouter, scripted: ScriptedLLM, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    scripted.fault(*[None] * 10, Stall())  # so that it cannot be through before it is interrupted
    process = await started("--data", data, "--items", ITEMS, "--router", router.rest, "--out", out)
    await scripted.until(lambda llm: len(llm.bodies) > 10)

    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()

    assert process.returncode == 130
    assert b"the same command continues from there" in err
    before = replies(out)
    assert 0 < len(before) < REQUESTS
    await evaluated(router.rest, data, out)
    assert replies(out)[: len(before)] == before
    assert len(set(replies(out))) == len(replies(out)) == REQUESTS


async def test_records_of_another_seed_are_not_gone_on_with(router: RunningRouter, data: Path, tmp_path: Path) -> None:
    await evaluated(router.rest, data, tmp_path / "out", items=1, assessors=("probe",))

    with pytest.raises(RecordsUnusable, match="made with seed 7, this run has 8; take another --out"):
        await evaluated(router.rest, data, tmp_path / "out", items=1, assessors=("probe",), seed=8)


async def test_a_model_that_goes_away_stops_the_run_and_spoils_nothing(
    router: RunningRouter, scripted: ScriptedLLM, data: Path, tmp_path: Path
) -> None:
    scripted.fault(*[ErrorReply(503, "Loading model")] * 20)

    with pytest.raises(ServiceUnreachable, match="the router's model is away"):
        await evaluated(router.rest, data, tmp_path / "out", assessors=("verbalized",))

    assert replies(tmp_path / "out") == []


async def test_a_router_with_keys_wants_one(
    scripted: ScriptedLLM, database_url: str, data: Path, tmp_path: Path
) -> None:
    scripted.answer = says
    keyring = Keyring((ApiKey(name="eva", sha256=sha256(b"mc-eva").hexdigest()),))
    async with router_at(scripted, database_url, tmp_path, keyring=keyring) as router:
        with pytest.raises(ServiceUnreachable, match="set METACOG_API_KEY to a key of the router"):
            await evaluated(router.rest, data, tmp_path / "out", items=1, assessors=("probe",))

        said = await evaluated(router.rest, data, tmp_path / "out", items=1, assessors=("probe",), key="mc-eva")

    assert "| probe | 2 |" in said


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "give the folder with the data sets"),
        (["--data", "nowhere"], "nowhere is no folder"),
        (["--data", "DATA", "--sets", "rivers"], "there is no data set rivers"),
        (["--data", "DATA", "--assessors", "oracle"], "there is no assessor oracle; there are answers, verbalized"),
        (["--data", "DATA", "--router", f"http://{NO_SERVER}"], f"no router answers at http://{NO_SERVER}"),
        (["--report-only", "nowhere"], "nowhere cannot be read"),
    ],
)
def test_what_is_asked_wrongly_is_refused_by_name(data: Path, tmp_path: Path, words: list[str], complaint: str) -> None:
    typed = [str(data) if word == "DATA" else word for word in words]

    ended = CliRunner().invoke(app, ["eval", "routing", *typed, "--out", str(tmp_path)], env={"COLUMNS": "200"})

    error = ended.exception
    assert complaint in (error.message if isinstance(error, MetacogError) else ended.output)
