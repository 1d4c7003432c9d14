"""All works: which tables of docs/evaluation are made from which records, or by which command."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from docs.generating.evaluation.what_helps import what_helps
from docs.generating.evaluation.works import FOLDER, Work
from evals.calibration import report as calibration_report
from evals.calibration.figures import calibration_by_kind
from evals.calibration.sources import answers_of_pack
from evals.publishing.files import file_names, report_files
from evals.recording import report as recording_report
from evals.recording.compressed import read_compressed
from evals.recording.figures import recording_figures
from evals.recording.live import live_records, live_rows
from evals.recording.recorder import item_records
from evals.records import read_records
from evals.replay import report as replay_report
from evals.replay.figures import figures
from evals.replay.pack import read_pack
from evals.stats.chance import seeded

COMMAND = "`make evaluation-pages`"
PACK = "replay/records"
RECORDING = "recordings/qwen2.5-coder.jsonl.gz"
# Published records of `metacog eval paper`, one file for each evaluation and model.
PAPERS = "papers"
# Draws of the bootstrap, and its seed, as `metacog eval calibration --seed 0` has them.
DRAWS, SEED = 1_000, 0
# Time that a command may take [s].
WITHIN_S = 7_200


def replay(root: Path) -> Mapping[str, str]:
    """Return the report of the recorded answers with its pictures, and what helps by them."""
    pack = read_pack(root / FOLDER / PACK)
    found = figures(pack)
    files = replay_report.report_files(pack, found, COMMAND)
    return {
        **{f"replay/{name}": text for name, text in files.items()},
        "decision-quality.md#what-helps": what_helps(found),
    }


def recording(root: Path) -> Mapping[str, str]:
    """Return the report of the recording, and its figures."""
    records = read_compressed(root / FOLDER / RECORDING)
    items = item_records(records)
    files = recording_report.report_files(
        records, recording_figures(items), live_rows(live_records(records), items), COMMAND
    )
    return {f"recordings/{name}": text for name, text in files.items()}


def calibration(root: Path) -> Mapping[str, str]:
    """Return the tables of calibration by kind."""
    chance = seeded(SEED, DRAWS)
    answers = [answers_of_pack(one, chance) for one in read_pack(root / FOLDER / PACK)]
    found = [row for each in answers if each is not None for row in calibration_by_kind(each, chance)]
    return {"calibration.md#tables": calibration_report.tables(found) + "\n"}


def published_works(root: Path) -> Sequence[Work]:
    """Return a work for each file of published records below docs/evaluation/papers: its report, and its pictures."""
    files = sorted((root / FOLDER / PAPERS).glob("*.jsonl.gz"))
    return [_published(root, f"{PAPERS}/{file.name}") for file in files]


def _published(root: Path, records: str) -> Work:
    folder = records.removesuffix(".jsonl.gz")

    def make(at: Path) -> Mapping[str, str]:
        files = report_files(read_records(at / FOLDER / records))
        return {f"{folder}/{name}": text for name, text in files.items()}

    makes = [f"{folder}/{name}" for name in file_names(read_records(root / FOLDER / records))]
    return Work(name=folder, records=(records,), makes=tuple(makes), make=make)


def printed(makes: str, *words: str, name: str = "") -> Work:
    """Return the work of a bench that simulates: what it prints is the part. It has the bench's name, if none else."""

    def make(root: Path) -> Mapping[str, str]:
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=root,
            env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'gen'}"},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=True,
        )
        return {makes: done.stdout}

    return Work(name=name or words[0].rpartition(".")[2], records=(), makes=(makes,), make=make)


WORKS: Sequence[Work] = (
    Work(
        name="recording",
        records=(RECORDING,),
        makes=("recordings/report.md", "recordings/figures.json"),
        make=recording,
        is_quick=True,
    ),
    Work(name="calibration", records=(PACK,), makes=("calibration.md#tables",), make=calibration),
    Work(
        name="replay",
        records=(PACK,),
        makes=(
            "replay/report.md",
            "replay/stopping.svg",
            "replay/second-opinions.svg",
            "replay/calibration.svg",
            "decision-quality.md#what-helps",
        ),
        make=replay,
    ),
    printed("assignment.md#gain", "bench.assignment", "--gain"),
    printed("delegation-simulated.md#drift", "bench.drift"),
    printed("retrieval.md#similarity", "bench.similarity"),
    printed("stopping.md#simulated", "bench.arbiter_stopping"),
    printed("stopping.md#more-samples", "bench.arbiter_stopping", "--more", name="arbiter_stopping_more"),
    *published_works(Path(__file__).parents[3]),
)
