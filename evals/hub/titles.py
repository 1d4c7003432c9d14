"""The names that the papers give to data sets. Pure."""

from collections.abc import Mapping

TITLES: Mapping[str, str] = {
    "boolq": "BoolQ",
    "arc_easy": "ARC-Easy",
    "arc_challenge": "ARC-Challenge",
    "strategyqa": "StrategyQA",
    "gsm8k": "GSM8K",
    "truthfulqa": "TruthfulQA",
    "mmlu": "MMLU",
}
_NAMES = {title.lower(): name for name, title in TITLES.items()}


def title(name: str) -> str:
    """Return what reports call a data set: as the papers do where they have it.

    Example:
        >>> title("arc_easy"), title("sums")
        ('ARC-Easy', 'sums')
    """
    return TITLES.get(name, name)


def set_name(written: str) -> str:
    """Return our name of a data set that is written as the papers do; any other name as it is.

    Example:
        >>> set_name("ARC-Easy"), set_name("GSM8K"), set_name("my_sums")
        ('arc_easy', 'gsm8k', 'my_sums')
    """
    return _NAMES.get(written.lower(), written)
