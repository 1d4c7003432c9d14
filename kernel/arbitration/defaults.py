"""These numbers hold in an arbitration whose request names none; the paper gives most (papers.md 2.1, 2.2, 2.4)."""

# Independent solvers [count].
SOLVERS = 2
# Samples per solver, K_s [count, >= 1].
SOLVER_SAMPLES = 5
# Arbitration samples, K_a [count, >= 1].
ARBITRATION_SAMPLES = 50
# Sampling temperatures of solvers, critiques and arbiter [0..2].
SOLVER_TEMPERATURE = 0.6
CRITIQUE_TEMPERATURE = 0.2
ARBITRATION_TEMPERATURE = 0.4
# Probability that all samples would give the same answer, from which adaptive sampling stops [0.5..1]; ours.
# The setting of the arbiter is at least this; a request may give less.
STOPPING_PROBABILITY = 0.95
# Arbitration samples of adaptive mode's first batch [count, >= 1]; ours.
FIRST_BATCH_SAMPLES = 6
# Equal answers that end the solving where the solvers' vote is the answer [count, >= 1].
AGREE = 2
# Similarity below which a claim is novel, tau [-1..1]; ours.
NOVEL_BELOW = 0.7
# Confidence above which a wrong answer is overconfident [0..1].
OVERCONFIDENT = 0.7
