"""The public data sets: where each is, and how its rows are read. Data.

Every path names files of data (Parquet or JSON), never a loading script, which `datasets` rejects.
"""

from collections.abc import Mapping

from evals.hub.hard import counted, expression, listed, reckoned, yes_or_no
from evals.hub.rows import (
    Reader,
    aqua_rat,
    boolq,
    folio,
    gsm8k,
    humaneval,
    indexed,
    labelled,
    math500,
    mbpp,
    nq_open,
    strategyqa,
    svamp,
    triviaqa,
    truthfulqa,
    winogrande,
)
from kernel.values import value

_COMMON, _KNOWN = "commonsense_inference", "knowledge_retrieval"


@value
class HubSet:
    """A public data set: its place, and the reader of its rows.

    Attributes:
        path: Its name on the hub.
        subset: Its configuration; empty: the default one.
        split: The split that is evaluated on.
        read: From a row and the item's name to the item.
        programs: Whether its items ask for programs, which not every evaluation can judge.
    """

    path: str
    subset: str
    split: str
    read: Reader
    programs: bool = False


def _hard(task: str, read: Reader) -> HubSet:
    """A task of BIG-bench Hard: one configuration each."""
    return HubSet(path="SaylorTwift/bbh", subset=task, split="test", read=read)


_ARC = labelled("arc_easy", _KNOWN)
_ARC_HARD = labelled("arc_challenge", _KNOWN)
_COMMONSENSE = labelled("commonsenseqa", _COMMON)
_MMLU = indexed("mmlu", _KNOWN, "choices", "answer", "question")
_HELLASWAG = indexed("hellaswag", _COMMON, "endings", "label", "ctx")
_PIQA = indexed("piqa", _COMMON, ("sol1", "sol2"), "label", "goal")

SETS: Mapping[str, HubSet] = {
    "boolq": HubSet(path="google/boolq", subset="", split="validation", read=boolq),
    "arc_easy": HubSet(path="allenai/ai2_arc", subset="ARC-Easy", split="test", read=_ARC),
    "arc_challenge": HubSet(path="allenai/ai2_arc", subset="ARC-Challenge", split="test", read=_ARC_HARD),
    "strategyqa": HubSet(path="ChilleD/StrategyQA", subset="", split="test", read=strategyqa),
    "gsm8k": HubSet(path="openai/gsm8k", subset="main", split="test", read=gsm8k),
    "svamp": HubSet(path="ChilleD/SVAMP", subset="", split="test", read=svamp),
    "aqua_rat": HubSet(path="deepmind/aqua_rat", subset="raw", split="test", read=aqua_rat),
    "math500": HubSet(path="HuggingFaceH4/MATH-500", subset="", split="test", read=math500),
    "truthfulqa": HubSet(path="truthfulqa/truthful_qa", subset="multiple_choice", split="validation", read=truthfulqa),
    "mmlu": HubSet(path="cais/mmlu", subset="all", split="test", read=_MMLU),
    "triviaqa": HubSet(path="mandarjoshi/trivia_qa", subset="rc.nocontext", split="validation", read=triviaqa),
    "nq_open": HubSet(path="google-research-datasets/nq_open", subset="", split="validation", read=nq_open),
    # The authors' own copy, `yale-nlp/FOLIO`, asks for an account.
    "folio": HubSet(path="tasksource/folio", subset="", split="validation", read=folio),
    "commonsenseqa": HubSet(path="tau/commonsense_qa", subset="", split="validation", read=_COMMONSENSE),
    "hellaswag": HubSet(path="Rowan/hellaswag", subset="", split="validation", read=_HELLASWAG),
    # The authors' own copy, `ybisk/piqa`, is a loading script.
    "piqa": HubSet(path="baber/piqa", subset="", split="validation", read=_PIQA),
    "winogrande": HubSet(path="allenai/winogrande", subset="winogrande_xl", split="validation", read=winogrande),
    "bbh_boolean_expressions": _hard("boolean_expressions", expression),
    "bbh_causal_judgement": _hard("causal_judgement", yes_or_no("bbh_causal_judgement", _COMMON)),
    "bbh_date_understanding": _hard("date_understanding", listed("bbh_date_understanding")),
    "bbh_formal_fallacies": _hard("formal_fallacies", listed("bbh_formal_fallacies")),
    "bbh_logical_deduction": _hard("logical_deduction_five_objects", listed("bbh_logical_deduction")),
    "bbh_multistep_arithmetic": _hard("multistep_arithmetic_two", reckoned),
    "bbh_navigate": _hard("navigate", yes_or_no("bbh_navigate")),
    "bbh_object_counting": _hard("object_counting", counted),
    "bbh_sports_understanding": _hard("sports_understanding", yes_or_no("bbh_sports_understanding", _COMMON)),
    "bbh_temporal_sequences": _hard("temporal_sequences", listed("bbh_temporal_sequences")),
    "bbh_tracking_shuffled_objects": _hard(
        "tracking_shuffled_objects_five_objects", listed("bbh_tracking_shuffled_objects")
    ),
    "bbh_web_of_lies": _hard("web_of_lies", yes_or_no("bbh_web_of_lies")),
    "humaneval": HubSet(path="openai/openai_humaneval", subset="", split="test", read=humaneval, programs=True),
    "mbpp": HubSet(path="google-research-datasets/mbpp", subset="sanitized", split="test", read=mbpp, programs=True),
}
