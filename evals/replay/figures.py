"""The figures of a replay: the rules of the product over recorded answers, as rows for a file and for the report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from evals.replay.calibration import ALL, CalibrationRow, calibration_rows, shipped_prior
from evals.replay.cascade_labels import CascadeLabelsRow, cascade_labels_rows
from evals.replay.cascades import CascadeRow, cascade_rows
from evals.replay.gain_by_kind import GainByKindRow, KindRow, gain_by_kind_rows, kind_rows
from evals.replay.learned_profiles import LearnedProfileRow, learned_profile_rows
from evals.replay.pack import RecordedSet
from evals.replay.panels import PanelRow, panel_rows
from evals.replay.promises import PromiseRow, promise_rows
from evals.replay.second_opinions import SecondOpinionRow, second_opinion_rows
from evals.replay.stopping import DraftVoteRow, StoppingRow, draft_vote_rows, stopping_rows
from evals.stats.chance import Chance, seeded
from kernel.statistics.bootstrap import Estimate
from kernel.values import value
from kernel.votes.probability import Prior

SEED = 0
# Draws of the bootstrap [count].
RESAMPLES = 1_000
# Lists of the file that are one list here, by whether a vote stops early.
CALIBRATION, STOPPED = "calibration", "calibration_of_stopped_votes"
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
        gain_by_kind: System 2 only on the kinds where it pays, a kind being a category of the file.
        gain_by_inferred_kind: The same by the kinds that the product infers; none without an encoder.
        kinds: The gain of System 2 on each category of a file.
        inferred_kinds: The same of the kinds that the product infers.
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
    gain_by_kind: Sequence[GainByKindRow] = ()
    gain_by_inferred_kind: Sequence[GainByKindRow] = ()
    kinds: Sequence[KindRow] = ()
    inferred_kinds: Sequence[KindRow] = ()


def figures(
    pack: Sequence[RecordedSet],
    done: Callable[[str], None] = lambda _: None,
    inferred: Mapping[str, Sequence[str]] | None = None,
) -> ReplayFigures:
    """Return the figures of a pack, the same ones every time.

    Args:
        pack: Its files.
        done: Called with the name of each part that is done.
        inferred: Kind that the product infers for each question, by file; without an encoder those that records have.
    """
    found: dict[str, list[Any]] = {name: [] for name in (*_ROWS, *_BY_INFERRED_KIND)}
    for recorded in pack:
        for name, rows in _ROWS.items():
            found[name] += rows(recorded, seeded(SEED, RESAMPLES))
        kinds = (inferred or {}).get(recorded.name, recorded.inferred)
        for name, by_kind in _BY_INFERRED_KIND.items():
            found[name] += by_kind(recorded, kinds, seeded(SEED, RESAMPLES))
        done(recorded.name)
    prior = shipped_prior(pack, seeded(SEED, RESAMPLES)) if found[CALIBRATION] else None
    return ReplayFigures(prior=prior, **found)


_ROWS: Mapping[str, Callable[[RecordedSet, Chance], Sequence[Any]]] = {
    "stopping": stopping_rows,
    "draft_vote": draft_vote_rows,
    "second_opinion": second_opinion_rows,
    CALIBRATION: calibration_rows,
    "panel": panel_rows,
    "learned_profiles": learned_profile_rows,
    "cascade": cascade_rows,
    "cascade_labels": cascade_labels_rows,
    "promise": promise_rows,
    "gain_by_kind": lambda recorded, chance: gain_by_kind_rows(recorded, recorded.categories, chance),
    "kinds": lambda recorded, chance: kind_rows(recorded, recorded.categories, chance),
}
_BY_INFERRED_KIND: Mapping[str, Callable[[RecordedSet, Sequence[str], Chance], Sequence[Any]]] = {
    "gain_by_inferred_kind": gain_by_kind_rows,
    "inferred_kinds": kind_rows,
}


def figures_document(found: ReplayFigures) -> Mapping[str, Any]:
    """Return the figures as JSON takes them: every estimate as {value, low, high}.

    An estimate named in `NUMBERS` is a number there, and its interval is in a separate field, e.g. `accuracy_interval`.
    `calibration` has the fixed panels, one row for each set, method and number of labels; the panels that stop when two
    agree are a list of their own.
    """
    document = {
        name: [_row(row, NUMBERS.get(name, ())) for row in getattr(found, name)]
        for name in (*_ROWS, *_BY_INFERRED_KIND)
    }
    by_votes: dict[str, list[Any]] = {CALIBRATION: [], STOPPED: []}
    for row in document[CALIBRATION]:
        by_votes[CALIBRATION if row["votes"] == ALL else STOPPED].append(row)
    return document | by_votes | {"prior": _plain(found.prior)}


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
