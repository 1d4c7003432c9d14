"""Labelled confidences come from the runs of a router, or from a pack of recorded answers."""

from collections.abc import Iterable, Sequence

import numpy as np
from metacog.router.v1.router_pb2 import Run

from evals.calibration.figures import LabelledAnswers
from evals.replay.calibration import Panels, held_out_chances
from evals.replay.pack import RecordedSet
from evals.replay.second_opinions import system_one_agents
from evals.stats.chance import Chance


def answers_of_runs(runs: Iterable[Run]) -> Sequence[LabelledAnswers]:
    """Return the labelled answers of runs by strategy and source of their confidence, the confidence as it was before.

    The kind of a run is that of its decision; a run without a label that teaches, or without a confidence, is left out.
    """
    found: dict[str, list[tuple[str, float, float]]] = {}
    for run in runs:
        labels = [each.score for each in run.feedback if each.teaches]
        if labels and run.HasField("confidence_raw"):
            name = f"{run.strategy}, {run.confidence_source}"
            found.setdefault(name, []).append((run.route.kind, run.confidence_raw, labels[0]))
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
