import pytest

from chassis.errors import ConfigurationInvalid
from configuration.affect import analyser, nrc
from kernel.errors import Code
from kernel.msv.affect import vader


def test_a_lexicon_that_is_not_installed_is_refused_with_the_command_that_installs_it() -> None:
    with pytest.raises(ConfigurationInvalid, match=r"pip install -e '\.\[nrc\]'") as raised:
        nrc("no_such_lexicon")

    assert "research purposes only" in raised.value.message
    assert (raised.value.code, raised.value.metadata["setting"]) == (Code.FAILED_PRECONDITION, "METACOG_AFFECT")


def test_nothing_of_the_lexicon_is_needed_for_the_default() -> None:
    assert analyser("vader") is vader
