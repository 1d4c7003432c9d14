from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.seeds import derived_seed

SEEDS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.lists(st.text("ab7-é", max_size=8), max_size=4)


@given(SEEDS, NAMES)
@settings(deadline=None)
def test_a_derived_seed_is_one_that_every_backend_takes(seed: int, names: list[str]) -> None:
    derived = derived_seed(seed, *names)

    assert 0 <= derived <= 2**31 - 1


@given(SEEDS, NAMES)
@settings(deadline=None)
def test_the_same_seed_and_names_repeat_the_run(seed: int, names: list[str]) -> None:
    assert derived_seed(seed, *names) == derived_seed(seed, *names)


def test_two_solvers_stages_attempts_or_runs_never_share_a_seed() -> None:
    calls = [
        (run, stage, agent, str(attempt))
        for run in (1, 2, -1)
        for stage in ("thesis", "antithesis")
        for agent in ("ada", "ben", "cleo")
        for attempt in range(4)
    ]

    seeds = {derived_seed(run, *names) for run, *names in calls}

    assert len(seeds) == len(calls)


def test_names_are_distinguished() -> None:
    assert derived_seed(7, "ab", "c") != derived_seed(7, "a", "bc")
    assert derived_seed(7, "abc") != derived_seed(7, "abc", "")
    assert derived_seed(71, "a") != derived_seed(7, "1", "a")
