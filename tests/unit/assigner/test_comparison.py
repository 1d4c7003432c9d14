"""What a text is judged beside does not show its stage."""

from kernel.roles import CHAIN
from services.assigner.core.comparison import others_in_random_order


def test_every_text_has_all_the_others_beside_it() -> None:
    for stages in (CHAIN, CHAIN[:2], CHAIN[:1]):
        beside = others_in_random_order(stages, seed=7)

        assert list(beside) == list(stages)
        for stage, others in beside.items():
            assert sorted([stage, *others]) == sorted(stages)


def test_an_order_follows_from_its_seed() -> None:
    assert others_in_random_order(CHAIN, seed=7) == others_in_random_order(CHAIN, seed=7)


def test_over_many_seeds_each_other_text_comes_first_equally_often() -> None:
    drawn = [others_in_random_order(CHAIN, seed=seed) for seed in range(3000)]

    for stage in CHAIN:
        firsts = [beside[stage][0] for beside in drawn]
        for other in CHAIN:
            if other is not stage:
                # Binomial(3000, 1/3): mean 1000, standard deviation 25.8; four of these
                assert abs(firsts.count(other) - 1000) < 104
