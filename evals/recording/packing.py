"""A recording as a pack of `metacog eval replay`: one file a set, the digest of a question in place of its text."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from evals.recording.calls import DRAFT, OTHER, PROGRAM, REASONED
from evals.recording.recorder import MADE_WITH
from evals.recording.values import ItemRecord
from evals.records import Record
from evals.replay.pack import ENDING

DEFAULT_MODEL, OTHER_MODEL = "system1", "other"


def write_pack(items: Sequence[ItemRecord], records: Sequence[Record], folder: Path) -> Sequence[Path]:
    """Write one file for each set into `folder`; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    agents = agent_names(records)
    paths = []
    for name in dict.fromkeys(item.dataset for item in items):
        path = folder / f"{name}{ENDING}"
        lines = [json.dumps(pack_line(item, agents)) for item in items if item.dataset == name]
        path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))
        paths.append(path)
    return paths


def agent_names(records: Sequence[Record]) -> Mapping[str, str]:
    """The name of each source as an agent of a pack, by the models that answered."""
    models = {record["source"]: next(iter(record["models"]), "") for record in records if record["kind"] == MADE_WITH}
    first, other = models.get(REASONED) or DEFAULT_MODEL, models.get(OTHER) or OTHER_MODEL
    return {
        DRAFT: f"{first}@draft",
        REASONED: f"{first}+cot@0.7",
        PROGRAM: f"{first}+program@0.7",
        OTHER: f"{other}+cot@0.7",
    }


def pack_line(item: ItemRecord, agents: Mapping[str, str]) -> Mapping[str, Any]:
    """One line of a pack; options are letters alone, since their texts are not recorded."""
    given = {agents[source]: answers for source, answers in item.answers.items() if answers}
    return {
        "id": item.id,
        "dataset": item.dataset,
        "category": item.dimension,
        "question": item.digest,
        **({"choices": list(ascii_uppercase[: item.options])} if item.options else {}),
        "answers": {agent: [one.answer for one in answers] for agent, answers in given.items()},
        "right": {agent: [int(one.right) for one in answers] for agent, answers in given.items()},
    }
