"""This module selects how the emotional response is measured."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module

from chassis.errors import ConfigurationInvalid
from chassis.log import logger
from kernel.msv.affect import AffectAnalyser, AffectName, lexical, vader

NRC_LICENCE = (
    "the NRC Word-Emotion Association Lexicon is (c) National Research Council Canada and for research purposes only; "
    "cite S. Mohammad and P. Turney, Crowdsourcing a Word-Emotion Association Lexicon, Computational Intelligence "
    "29(3), 436-465, 2013"
)


_log = logger(__name__)


def analyser(name: AffectName) -> AffectAnalyser:
    """Return the analyser called `name`.

    Raises:
        ConfigurationInvalid: When it is not installed; the message states how to install it.
    """
    return nrc() if name == "nrc" else vader


def nrc(package: str = "nrclex") -> AffectAnalyser:
    """Return the analyser by the NRC lexicon; its licence is logged.

    Args:
        package: Where the lexicon is found.

    Raises:
        ConfigurationInvalid: When it is not installed; the message states how to install it.
    """
    try:
        nrclex = import_module(package)
    except ImportError as missing:
        message = (
            "affect by nrc: the NRC lexicon is not installed; it is for research purposes only. Install it with "
            "`.venv/bin/pip install -e '.[nrc]'`, or take vader (METACOG_AFFECT=vader, --affect vader)"
        )
        raise ConfigurationInvalid(message, setting="METACOG_AFFECT") from missing

    def bundled(words: Sequence[str]) -> Mapping[str, Iterable[str]]:
        found = nrclex.NRCLex()
        found.load_token_list(words)  # analysing a text instead would need corpora that have to be downloaded
        emotions: Mapping[str, Iterable[str]] = found.affect_dict
        return emotions

    _log.warning(f"affect by nrc: {NRC_LICENCE}")
    return partial(lexical, lexicon=bundled)
