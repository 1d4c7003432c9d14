"""The figures that the MetaCogAgent paper prints, to stand beside ours, and what in them does not add up. Data."""

from collections.abc import Mapping

# Table II: accuracy in percent, delegation precision, ECE, calls, over 700 tasks and three agents.
TABLE_2: Mapping[str, tuple[str, str, str, str]] = {
    "Single-Agent": ("65.3", "-", "-", "700"),
    "Round-Robin": ("61.8", "-", "-", "700"),
    "Random-Routing": ("63.5", "-", "-", "700"),
    "Skill-Fixed": ("70.2", "0.673", "-", "700"),
    "Majority-Vote": ("77.1", "-", "-", "2100"),
    "AutoGen": ("73.7", "-", "-", "1456"),
    "MetaCogAgent": ("82.4", "0.841", "0.087", "1382"),
}
# Table III: accuracy in percent, easy, medium and hard.
TABLE_3: Mapping[str, tuple[str, str, str]] = {
    "Single-Agent": ("76.5", "63.0", "58.0"),
    "Skill-Fixed": ("81.0", "68.5", "63.0"),
    "Majority-Vote": ("86.0", "76.5", "70.0"),
    "AutoGen": ("83.5", "73.0", "66.0"),
    "MetaCogAgent": ("90.5", "82.0", "79.0"),
}
# Table IV: accuracy in percent, delegation precision.
TABLE_4: Mapping[str, tuple[str, str]] = {
    "w/o self-assessment": ("75.6", "0.612"),
    "w/o delegation": ("77.3", "-"),
    "w/o boundary learning": ("79.2", "0.793"),
    "w/o cross-agent evaluation": ("78.9", "0.724"),
    "w/o verbalized": ("78.1", "0.756"),
}
# Table V: accuracy in percent by value of each parameter.
TABLE_5: Mapping[str, Mapping[float, str]] = {
    "theta": {0.3: "78.1", 0.4: "80.9", 0.5: "82.4", 0.6: "81.3", 0.7: "79.6"},
    "weight": {0.3: "79.4", 0.5: "81.8", 0.6: "82.4", 0.7: "81.6", 0.9: "78.7"},
    "rate": {0.01: "80.6", 0.05: "81.7", 0.1: "82.4", 0.2: "81.9", 0.3: "80.3"},
}
SYMBOLS: Mapping[str, str] = {"theta": "theta", "weight": "lambda", "rate": "alpha"}
# Section G, in percent.
RATES: Mapping[str, str] = {"easy": "10.5", "medium": "25.5", "hard": "41.5", "cross": "63.0", "all": "31.1"}
TO_BETTER = "83.5"
# Who hands over, in percent of all hand-overs.
HANDED_OVER: Mapping[str, str] = {"alpha": "25.7", "beta": "43.1", "gamma": "31.2"}
# Competence after learning, as far as the paper prints it, by agent and dimension.
LEARNED: Mapping[tuple[str, str], str] = {
    ("alpha", "logical_reasoning"): "0.89",
    ("alpha", "math_computation"): "0.85",
    ("alpha", "code_generation"): "0.62",
    ("gamma", "code_generation"): "0.87",
    ("gamma", "logical_reasoning"): "0.64",
}
ECE_BY_DIFFICULTY: Mapping[str, str] = {"all": ".087", "easy": ".051", "hard": ".132"}

DOUBTS = (
    "700 answers and one self-assessment for each task are 1,400 calls before anybody is asked a second time; the "
    "paper counts 1,382 in all. We count every self-assessment and every answer.",
    "With 200 tasks of each difficulty and 100 cross-domain ones, Tables II and III leave 73.8 % for the cross-domain "
    "tasks of its method and 70.9 % for AutoGen: a gain of 2.9 points, where the text has 13.",
    "A low theta means that more agents are sure enough to keep a task, so that less is delegated; the text claims the "
    "opposite.",
    "Algorithm 1 updates the agent that was dispatched to, the text the one that executed; we follow the text.",
    "A moving mean with the rate 0.1 has the variance of 2 / 0.1 - 1 = 19 observations, not of the 10 that the paper "
    "reads into it.",
    "No figure of the paper has an interval. With 700 tasks a share near 80 % is known to about ± 3 points, and a "
    "perfectly calibrated method shows an ECE of about .04 by chance.",
)
