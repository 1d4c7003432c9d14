"""The kinds that the product infers for recorded questions: the dimensions that ship, by a sentence encoder."""

from collections.abc import Mapping, Sequence

from configuration.dimensions import SHIPPED, prototypes_of, read_dimensions
from evals.replay.gain_by_kind import both_systems
from evals.replay.pack import RecordedSet
from inference import Embedder, Prototypes
from kernel.learning.kinds import classified_text, unit_vectors

# Time that the vectors of so many questions may take [s].
WITHIN_S, AT_A_TIME = 600.0, 512


async def inferred_kinds(pack: Sequence[RecordedSet], embedder: Embedder) -> Mapping[str, Sequence[str]]:
    """Return the kind of each question of the files in which a model answers both ways, by the file's name.

    Raises:
        EncoderUnavailable: When the encoder cannot be reached, or does not answer in time.
    """
    prototypes = Prototypes(embedder)
    kinds = prototypes_of(read_dimensions(SHIPPED))
    found: dict[str, list[str]] = {}
    for recorded in pack:
        if next(both_systems(recorded), None) is None or not recorded.questions:
            continue
        named = found.setdefault(recorded.name, [])
        texts = [classified_text(question) for question in recorded.questions]
        for start in range(0, len(texts), AT_A_TIME):
            embedded = await embedder.embed(texts[start : start + AT_A_TIME], timeout_s=WITHIN_S)
            vectors = await prototypes.by(embedded.encoder, kinds, timeout_s=WITHIN_S)
            named += [next(iter(vectors.likelihoods(row)), "") for row in unit_vectors(embedded.vectors)]
    return found
