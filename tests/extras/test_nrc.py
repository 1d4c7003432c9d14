"""The real NRC lexicon, which `make test-nrc` installs first: its licence is for research only.

Nothing depends on it.
"""

from configuration.affect import analyser

CALM = "List the files in the current directory."
OUTCRY = "I hate this horrible disgusting betrayal, it is a cruel nightmare."


def test_the_real_lexicon_reaches_both_ends_and_asks_for_no_download() -> None:
    analyse = analyser("nrc")

    assert (analyse(CALM)["intensity"], analyse(OUTCRY)["intensity"]) == (0.0, 1.0)
    assert analyse(OUTCRY)["emotion.disgust"] > analyse(OUTCRY)["emotion.joy"]
    assert all(0 <= level <= 1 for level in analyse(OUTCRY).values())
