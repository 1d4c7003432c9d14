"""The prior that ships is what recorded answers of other models say about votes before there is a label.

`metacog eval replay` makes it, and writes it under `prior`: here from the answers of 103 models to 9,195 public
questions of MMLU-Pro, GSM8K, CRUXEval and BIG-Bench Hard, with and without options. Panels of up to five models, five
answers of one model, and a direct answer with four reasoned ones of its model vote; once all of them, once until two
agree. Only the numbers are here, no data.

Fitted without the reported model and on other questions, its ECE on MMLU-Pro is .067 for panels of five and .092
until two agree; the share of votes has .177 and .277 (docs/evaluation/replay.md). No recording has votes by programs:
the term of modes rests on direct against reasoned answers.
"""

from kernel.votes.probability import Prior

SHIPPED_PRIOR = Prior(
    coefficients=(-2.81, -0.02661, 3.168, 0.8296, 0.9294, 0.144, -0.2005),
    precision=(
        (93.28, -54.34, -6.655, 46.82, -4.916, -2.173, -5.151),
        (-54.34, 74.71, -6.63, -36.45, 7.625, 5.666, -3.343),
        (-6.655, -6.63, 49.64, -23.6, 0.6989, -5.124, 9.123),
        (46.82, -36.45, -23.6, 96.18, -1.926, -6.573, 28.38),
        (-4.916, 7.625, 0.6989, -1.926, 33.88, -5.302, -2.061),
        (-2.173, 5.666, -5.124, -6.573, -5.302, 24.64, -0.07538),
        (-5.151, -3.343, 9.123, 28.38, -2.061, -0.07538, 40.14),
    ),
    share_right=0.5545,
)
