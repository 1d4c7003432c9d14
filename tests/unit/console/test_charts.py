import pytest
from metacog.assigner.v1.assigner_pb2 import RolesAssigned
from metacog.common.v1.msv_pb2 import MSV
from metacog.common.v1.reliability_pb2 import ReliabilityBin
from metacog.delegation.v1.monitoring_pb2 import Flow
from metacog.delegation.v1.profiles_pb2 import CapabilityProfile
from metacog.router.v1.calibration_pb2 import ActivationBin
from metacog.router.v1.router_pb2 import Activation

from chassis.serving.wire import from_rest
from console.charts.calibration import histogram, reliability_marks
from console.charts.profiles import flow_table, profile_table
from console.charts.series import evolution
from console.charts.state import radar, terms
from console.charts.tables import fitness_matrix


def test_the_terms_of_an_activation_lie_end_to_end_and_reach_its_value() -> None:
    activation = Activation(
        terms={"correctness": 0.165, "conflict": 0.18, "importance": 0.2125, "experience": 0.0},
        weights={"correctness": 0.3, "conflict": 0.25, "importance": 0.25, "experience": 0.2},
    )

    made = terms(activation, MSV(correctness=0.45))

    assert [term.start for term in made] == pytest.approx([0.0, 0.165, 0.345, 0.5575])
    assert made[-1].start + (made[-1].share or 0) == pytest.approx(0.5575)
    assert [term.is_lowering for term in made] == [True, False, False, True]


def test_an_unknown_component_has_no_point_on_the_radar() -> None:
    unknown_reasons = {"experience": "nothing is stored yet"}
    state = MSV(correctness=0.5, importance=1.0, conflict=0.0, emotional_response=0.2, unknown_reasons=unknown_reasons)

    drawn = radar(state)

    unknown = next(axis for axis in drawn.axes if axis.name == "experience")
    assert (unknown.level, unknown.x, unknown.y, unknown.reason) == (None, None, None, "nothing is stored yet")
    assert drawn.area == ""
    assert len(drawn.edges) == 3  # of five neighbours, the two pairs with the unknown one are not joined


def test_a_radar_without_unknown_components_is_filled() -> None:
    drawn = radar(MSV(correctness=1.0, experience=1.0, importance=1.0, conflict=1.0, emotional_response=1.0))

    assert drawn.area == drawn.rings[-1]
    assert len(drawn.edges) == 5


def test_a_stage_whose_state_is_unknown_leaves_a_gap_and_is_never_zero() -> None:
    known = MSV(correctness=0.2, conflict=0.8)
    stages: list[tuple[str, MSV | None]] = [
        ("THESIS", known),
        ("ANTITHESIS", MSV(conflict=0.5)),
        ("RESOLUTION", known),
        ("S", None),
    ]

    correctness, conflict = evolution(stages).lines

    assert [point.level for point in correctness.points] == [0.2, 0.2]
    assert (correctness.edges, len(correctness.unknown)) == ([], 1)
    assert (len(conflict.edges), conflict.unknown) == (2, [])


def test_names_of_lines_that_end_together_do_not_overlap() -> None:
    chart = evolution([("THESIS", MSV(correctness=0.5, conflict=0.5))])

    assert abs(chart.lines[0].label_y - chart.lines[1].label_y) >= 16


def test_the_fitness_matrix_has_the_chosen_cells_and_the_terms_of_each_cell() -> None:
    optimum = {
        "fitness": {"EXPERT": {"a": 0.7, "b": 0.4}, "CRITIC": {"a": 0.3}},
        "terms": {"EXPERT": {"a": {"correctness": 0.42, "experience": 0.28}}, "CRITIC": {"b": {}}},
        "weights": {
            "EXPERT": {"correctness": 0.6, "experience": 0.4},
            "CRITIC": {"conflict": 0.6, "incorrectness": 0.4},
        },
        "margins": {"EXPERT": 0.1, "CRITIC": None},
        "greedy": {"assignment": {"EXPERT": "b", "CRITIC": "a"}, "total_fitness": 0.7},
        "partial": [{"role": "EXPERT", "agent": "b", "unknown": ["experience"]}],
    }
    roles = from_rest({"assignment": {"EXPERT": "a", "CRITIC": "b"}, "optimum": optimum}, RolesAssigned)

    made = fitness_matrix(roles, {"a": MSV(correctness=0.7, experience=0.7), "b": MSV(correctness=0.25)})

    expert, critic = made.rows
    assert (expert.role, expert.margin, critic.margin) == ("EXPERT", 0.1, None)
    assert [(cell.agent, cell.is_chosen, cell.is_greedy) for cell in expert.cells] == [
        ("a", True, False),
        ("b", False, True),
    ]
    assert [(t.component, t.weight, t.state, t.share) for t in expert.cells[0].terms] == [
        ("correctness", 0.6, 0.7, 0.42),
        ("experience", 0.4, 0.7, 0.28),
    ]
    assert expert.cells[1].unknown == ["experience"]
    assert critic.cells[1].fitness is None  # nothing is known of it, which is not 0
    assert [term.state for term in critic.cells[1].terms] == [None, 0.75]  # 1 - correctness


def test_an_empty_bin_has_no_mark_and_a_full_one_is_the_larger() -> None:
    bins = [
        ReliabilityBin(lower=0.0, upper=0.5, observations=0),
        ReliabilityBin(lower=0.5, upper=0.6, observations=1, mean_confidence=0.55, accuracy=0.0),
        ReliabilityBin(lower=0.9, upper=1.0, observations=99, mean_confidence=0.95, accuracy=1.0),
    ]

    few, many = reliability_marks(bins)

    assert few.radius < many.radius
    assert (few.y, many.y) == (194.0, 26.0)
    assert few.low is None


def test_the_highest_bar_fills_the_plot_and_no_runs_make_no_bar() -> None:
    bins = [ActivationBin(lower=0.0, upper=0.5, runs=n) for n in (0, 5, 10)]

    assert [bar.height for bar in histogram(bins)] == [0.0, 0.5, 1.0]


def test_missing_profiles_and_delegations_are_empty_cells() -> None:
    profiles = [CapabilityProfile(agent="a", dimension="x"), CapabilityProfile(agent="b", dimension="y")]
    flows = [Flow(from_agent="a", to_agent="b", tasks=3)]

    assert [[cell is not None for cell in cells] for _, cells in profile_table(profiles).rows] == [
        [True, False],
        [False, True],
    ]
    table = flow_table(flows)
    assert (list(table.columns), [name for name, _ in table.rows]) == (["a", "b"], ["a", "b"])
    assert [[cell and cell.tasks for cell in cells] for _, cells in table.rows] == [[None, 3], [None, None]]
