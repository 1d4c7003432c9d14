"""The figures of a replay: the rules of the product over recorded answers, as rows for a file and for the report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from evals.replay.calibration import ALL, CalibrationRow, calibration_rows, shipped_prior
from evals.replay.cascade_labels import CascadeLabelsRow, cascade_labels_rows
from evals.replay.cascades import CascadeRow, cascade_rows
from evals.replay.learned_profiles import LearnedProfileRow, learned_profile_rows
from evals.replay.pack import RecordedSet
from evals.replay.panels import PanelRow, panel_rows
from evals.replay.promises import PromiseRow, promise_rows
from evals.replay.second_opinions import SecondOpinionRow, second_opinion_rows
from evals.replay.stopping import DraftVoteRow, StoppingRow, draft_vote_rows, stopping_rows
from evals.stats.chance import seeded
from kernel.statistics.bootstrap import Estimate
from kernel.values import value
from kernel.votes.probability import Prior

SEED = 0
# Draws of the bootstrap [count].
RESAMPLES = 1_000
# Lists that have their place in the file, and whose rules are not built.
CALIBRATION, STOPPED = "calibration", "calibration_of_stopped_votes"
NOT_BUILT = ("gain_by_kind",)
# Estimates that the file has as a number, by list; their intervals are in a separate field.
NUMBERS: Mapping[str, Sequence[str]] = {
    "stopping": ("accuracy",),
    "panel": ("accuracy", "calls_share"),
    "cascade": ("accuracy_share", "strong_share"),
}
INTERVAL = "_interval"


@value
class ReplayFigures:
    """All figures of a pack.

    Attributes:
        stopping: Rules that stop, against fixed numbers of samples.
        draft_vote: The System 1 answer as the first vote.
        second_opinion: Other models' answers as signs of an error.
        calibration: Probabilities of being right.
        prior: The prior that all of it gives; None where there are too few models.
        panel: Agents one after another until two agree, against all at once.
        learned_profiles: Profiles that are learned on the job, drawn towards an agent's other dimensions or not.
        cascade: Small models, and a strong one only where too few of them agree.
        cascade_labels: The rule of a cascade, chosen from labels.
        promise: Which share of the answers is given where their error is bounded.
    """

    stopping: Sequence[StoppingRow]
    draft_vote: Sequence[DraftVoteRow]
    second_opinion: Sequence[SecondOpinionRow]
    calibration: Sequence[CalibrationRow]
    prior: Prior | None = None
    panel: Sequence[PanelRow] = ()
    learned_profiles: Sequence[LearnedProfileRow] = ()
    cascade: Sequence[CascadeRow] = ()
    cascade_labels: Sequence[CascadeLabelsRow] = ()
    promise: Sequence[PromiseRow] = ()


def figures(pack: Sequence[RecordedSet], done: Callable[[str], None] = lambda _: None) -> ReplayFigures:
    """Return the figures of a pack, the same ones every time.

    Args:
        pack: Its files.
        done: Called with the name of each part that is done.
    """
    stopping: list[StoppingRow] = []
    drafts: list[DraftVoteRow] = []
    opinions: list[SecondOpinionRow] = []
    calibration: list[CalibrationRow] = []
    panels: list[PanelRow] = []
    learned: list[LearnedProfileRow] = []
    cascades: list[CascadeRow] = []
    cascade_labels: list[CascadeLabelsRow] = []
    promises: list[PromiseRow] = []
    for recorded in pack:
        stopping += stopping_rows(recorded, seeded(SEED, RESAMPLES))
        drafts += draft_vote_rows(recorded, seeded(SEED, RESAMPLES))
        opinions += second_opinion_rows(recorded, seeded(SEED, RESAMPLES))
        calibration += calibration_rows(recorded, seeded(SEED, RESAMPLES))
        panels += panel_rows(recorded, seeded(SEED, RESAMPLES))
        learned += learned_profile_rows(recorded, seeded(SEED, RESAMPLES))
        cascades += cascade_rows(recorded, seeded(SEED, RESAMPLES))
        cascade_labels += cascade_labels_rows(recorded, seeded(SEED, RESAMPLES))
        promises += promise_rows(recorded, seeded(SEED, RESAMPLES))
        done(recorded.name)
    return ReplayFigures(
        stopping=stopping,
        draft_vote=drafts,
        second_opinion=opinions,
        calibration=calibration,
        prior=shipped_prior(pack, seeded(SEED, RESAMPLES)) if calibration else None,
        panel=panels,
        learned_profiles=learned,
        cascade=cascades,
        cascade_labels=cascade_labels,
        promise=promises,
    )


def figures_document(found: ReplayFigures) -> Mapping[str, Any]:
    """Return the figures as JSON takes them: every estimate as {value, low, high}.

    An estimate named in `NUMBERS` is a number there, and its interval is in a separate field, e.g. `accuracy_interval`.
    `calibration` has the fixed panels, one row for each set, method and number of labels; the panels that stop when two
    agree are a list of their own.
    """
    lists = (
        *("stopping", "draft_vote", "second_opinion", CALIBRATION),
        *("panel", "learned_profiles", "cascade", "cascade_labels", "promise"),
    )
    document = {name: [_row(row, NUMBERS.get(name, ())) for row in getattr(found, name)] for name in lists}
    by_votes: dict[str, list[Any]] = {CALIBRATION: [], STOPPED: []}
    for row in document[CALIBRATION]:
        by_votes[CALIBRATION if row["votes"] == ALL else STOPPED].append(row)
    return document | by_votes | {name: [] for name in NOT_BUILT} | {"prior": _plain(found.prior)}


def _row(row: object, numbers: Sequence[str]) -> Mapping[str, Any]:
    """Return a row with these of its estimates as numbers, beside their intervals."""
    plain: dict[str, Any] = _plain(row)
    return plain | {name: plain[name]["value"] for name in numbers} | {name + INTERVAL: plain[name] for name in numbers}


def _plain(content: object) -> Any:  # noqa: ANN401 - whatever JSON takes
    if isinstance(content, Estimate):
        return {"value": content.value, "low": content.low, "high": content.high}
    if is_dataclass(content) and not isinstance(content, type):
        return dict(_fields(content))
    if isinstance(content, Mapping):
        return {str(key): _plain(one) for key, one in content.items()}
    return [_plain(one) for one in content] if isinstance(content, tuple) else content


def _fields(row: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any dataclass
    for field in fields(row):
        yield field.name, _plain(getattr(row, field.name))
