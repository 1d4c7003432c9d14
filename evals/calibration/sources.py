"""Labelled confidences come from the runs of a router, or from a pack of recorded answers."""

from collections.abc import Iterable, Sequence

import numpy as np
from metacog.router.v1.router_pb2 import Run

from evals.calibration.figures import LabelledAnswers
from evals.errors import RecordsUnusable
from evals.records import Record
from evals.replay.calibration import Panels, held_out_chances
from evals.replay.pack import RecordedSet
from evals.replay.second_opinions import system_one_agents
from evals.stats.chance import Chance

ANSWER = "answer"


def labelled_answers(runs: Iterable[Run]) -> Sequence[Record]:
    """Return a record for each run with a label that teaches and a confidence: as it was before recalibration."""
    return [
        {
            "kind": ANSWER,
            "id": run.run_id,
            "source": f"{run.strategy}, {run.confidence_source}",
            "question_kind": run.route.kind,
            "confidence": run.confidence_raw,
            "score": labels[0],
        }
        for run in runs
        if (labels := [each.score for each in run.feedback if each.teaches]) and run.HasField("confidence_raw")
    ]


def answers_of_records(records: Sequence[Record]) -> Sequence[LabelledAnswers]:
    """Return the labelled answers of records by strategy and source of their confidence.

    Raises:
        RecordsUnusable: When a record is none of a labelled answer.
    """
    found: dict[str, list[tuple[str, float, float]]] = {}
    try:
        for record in records:
            row = (str(record["question_kind"]), float(record["confidence"]), float(record["score"]))
            found.setdefault(record["source"], []).append(row)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordsUnusable(f"the records are none of `metacog eval calibration`: {error!r}") from error
    return [
        LabelledAnswers(
            source=name,
            kinds=[kind for kind, _, _ in rows],
            confidences=np.array([[confidence] for _, confidence, _ in rows]),
            scores=np.array([[score] for _, _, score in rows]),
        )
        for name, rows in sorted(found.items())
    ]


def answers_of_pack(recorded: RecordedSet, chance: Chance) -> LabelledAnswers | None:
    """Return the answers of votes of recorded models, each with its probability by a prior without the reported model.

    None where the file has too few models. The kind of a question is its category.
    """
    columns = held_out_chances(Panels(recorded, chance), system_one_agents(recorded))
    if not columns:
        return None
    return LabelledAnswers(
        source=recorded.name,
        kinds=recorded.categories,
        confidences=np.column_stack([chances for chances, _ in columns]),
        scores=np.column_stack([right for _, right in columns]),
    )
