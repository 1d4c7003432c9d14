"""Whether System 2 pays, by kind of question, on recorded answers: cases that can be computed by hand."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from evals.replay.figures import ReplayFigures, figures, figures_document
from evals.replay.gain_by_kind import both_systems, gain_by_kind_rows, kind_rows
from evals.replay.gain_sections import HOW_TO_INFER, gain_section
from evals.replay.inferred_kinds import inferred_kinds
from evals.replay.pack import RecordedSet, read_set
from evals.stats.chance import seeded
from inference import Embedded, Encoder
from tests.unit.evals.replay.packs import PANEL, SAMPLED, Line, line, made_lines, write_set

# Reasoning makes the sums right and the towns no better; it is twelve times as long as a direct answer.
SUMS, TOWNS = "sums", "towns"


def answered(number: int, task: str, *, direct: int, cot: int, **more: object) -> Line:
    return line(
        number,
        {"direct": ["4"], "cot": ["4"]},
        {"direct": [direct], "cot": [cot]},
        **{"dataset": task, "chars": {"direct": 10, "cot": 120}, **more},
    )


def two_tasks(count: int, **more: object) -> list[Line]:
    """Half are sums, which only reasoning gets right; half are towns, of which either system has three of four."""
    sums = [answered(at, SUMS, direct=0, cot=1, **more) for at in range(count // 2)]
    towns = [
        answered(at, TOWNS, direct=int(at % 4 > 0), cot=int(at % 4 > 0), **more) for at in range(count // 2, count)
    ]
    return sums + towns


def recorded(folder: Path, lines: Sequence[Line], name: str = "set") -> RecordedSet:
    return read_set(write_set(folder, name, lines))


def test_reasoning_only_where_it_pays_keeps_the_accuracy_for_half_of_the_tokens(tmp_path: Path) -> None:
    found = recorded(tmp_path, two_tasks(800))

    rows = {row.labels: row for row in gain_by_kind_rows(found, found.categories, seeded(0, 50), draws=20)}

    assert set(rows) == {20, 50, 100}
    row = rows[50]
    assert (row.kinds, row.labelled, row.left) == (2, 100, 700)
    assert row.accuracy_share.value == 1.0
    # Of two questions one costs 120 characters and one 10, in place of 240.
    assert row.token_share.value == pytest.approx(130 / 240)
    assert set(row.token_shares.values()) == {row.token_share.value}  # lengths are recorded: nothing is assumed
    # At that cost a random half reasons: .5 x .75 directly, and (1 + .75) / 2 where it reasons, over the latter.
    assert row.random_accuracy_share.value == pytest.approx((0.375 + 0.875) / 2 / 0.875, abs=0.01)
    assert row.gain_over_random.value == pytest.approx(
        (row.accuracy_share.value or 0) - (row.random_accuracy_share.value or 0)
    )
    assert row.system_one_accuracy_share.value == pytest.approx(0.375 / 0.875, abs=0.01)


def test_no_row_leaves_fewer_than_200_questions(tmp_path: Path) -> None:
    found = recorded(tmp_path, two_tasks(300))

    rows = gain_by_kind_rows(found, found.categories, seeded(0, 20), draws=2)

    assert [row.labels for row in rows] == [20, 50]


@pytest.mark.parametrize("chars", [{"cot": 120}, {}])
def test_where_lengths_are_not_recorded_a_reasoned_answer_costs_twelve_direct_ones(
    tmp_path: Path, chars: dict[str, int]
) -> None:
    """Sums cost 12 each, towns 1 each, in place of 24."""
    found = recorded(tmp_path, two_tasks(800, chars=chars))

    [row] = [one for one in gain_by_kind_rows(found, found.categories, seeded(0, 20), draws=5) if one.labels == 50]

    assert row.token_share.value == pytest.approx(13 / 24)
    assert row.token_shares == pytest.approx({6: 7 / 12, 12: 13 / 24, 24: 25 / 48})


def test_a_loss_is_avoided_and_the_share_is_above_one(tmp_path: Path) -> None:
    lines = [answered(at, SUMS, direct=0, cot=1) for at in range(200)]
    lines += [answered(at, TOWNS, direct=1, cot=0) for at in range(200, 400)]
    found = recorded(tmp_path, lines)

    row = gain_by_kind_rows(found, found.categories, seeded(0, 20), draws=5)[0]

    assert row.accuracy_share.value == pytest.approx(2.0)
    gains = {kind.kind: kind.gain.value for kind in kind_rows(found, found.categories, seeded(0, 20))}
    assert gains == {SUMS: 1.0, TOWNS: -1.0}


@pytest.mark.parametrize("lines", [made_lines(400, PANEL), made_lines(400, {"direct": (0.4, 1), "cot": (0.6, 1)})])
def test_a_file_without_kinds_or_without_both_ways_of_answering_gives_no_row(tmp_path: Path, lines: list[Line]) -> None:
    found = recorded(tmp_path, lines)

    assert gain_by_kind_rows(found, found.categories, seeded(0, 20)) == []
    assert gain_section(figures([found])) == ""


def test_a_direct_and_a_reasoned_model_are_known_by_their_names(tmp_path: Path) -> None:
    found = recorded(tmp_path, made_lines(60, {**SAMPLED, "small@0.8": (0.4, 10)}), "cruxeval_made")

    assert [(one.name, two.name) for one, two in both_systems(found)] == [("small@0.8", "small+cot@0.8")]


class Lengths:
    """An encoder that tells questions about towns from all other texts."""

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Embedded:
        assert timeout_s > 0
        vectors = [[1.0, 0.0] if "capital" in text else [0.0, 1.0] for text in texts]
        return Embedded(encoder=Encoder(name="towns", dimension=2), vectors=np.array(vectors, dtype=np.float32))


async def test_the_kinds_that_metacog_infers_are_in_a_list_of_their_own(tmp_path: Path) -> None:
    lines = [
        {**one, "question": f"{'What is the capital' if one['dataset'] == TOWNS else 'Count'} of {at}?"}
        for at, one in enumerate(two_tasks(800))
    ]
    pack = [recorded(tmp_path, lines), recorded(tmp_path, made_lines(40, PANEL), "panel")]

    inferred = await inferred_kinds(pack, Lengths())
    found = figures(pack, inferred=inferred)

    assert set(inferred) == {"set"}  # in the other file no model answers both ways
    assert len(set(inferred["set"])) == 2
    document = figures_document(found)
    for name in ("gain_by_kind", "gain_by_inferred_kind"):
        [row] = [one for one in document[name] if one["labels"] == 50]
        assert set(row["accuracy_share"]) == set(row["token_share"]) == {"value", "low", "high"}
        assert row["random_accuracy_share"]["value"] < row["accuracy_share"]["value"]
    report = gain_section(found)
    assert "What finer categories would buy: set, 20 labels a kind" in report
    assert HOW_TO_INFER not in report


def test_without_an_encoder_the_report_says_how_to_get_the_inferred_kinds(tmp_path: Path) -> None:
    found = recorded(tmp_path, two_tasks(400))
    rows = gain_by_kind_rows(found, found.categories, seeded(0, 20), draws=2)

    report = gain_section(
        ReplayFigures(stopping=[], draft_vote=[], second_opinion=[], calibration=[], gain_by_kind=rows)
    )

    assert "`--encoder URL`" in report
