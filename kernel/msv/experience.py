"""Experiential matching (EM) measures how much of a question is known already.

Source: MSV, state vector (papers.md 1.1): similarity to a knowledge base, and similarity to earlier answered questions.
The calibration is ours.
"""

from collections.abc import Mapping

from kernel.errors import Code, MetacogError
from kernel.values import value
from kernel.weighted_mean import sums_to_one, weighted_mean

SOURCES = ("knowledge", "experience")
NOTHING_STORED = "nothing is stored yet"
NO_RIGHT_ANSWER = "no right answer of this agent is recorded yet"
NOTHING_NEAR = "no question that this agent answered right is near"
NOTHING_STORED_NEAR = "nothing that is stored is near"


class InvalidExperienceWeights(MetacogError):
    """Weights of the two sources are negative or do not sum to 1."""

    code = Code.FAILED_PRECONDITION
    reason = "INVALID_WEIGHTS"


class InvalidCalibration(MetacogError):
    """The floor of a calibration is not below its ceiling."""

    code = Code.FAILED_PRECONDITION
    reason = "CONFIGURATION_INVALID"


@value
class ExperienceWeights:
    """These weights state what each source counts in EM [dimensionless, >= 0, sum 1].

    Attributes:
        knowledge: Weight of the similarity to the nearest chunk of a document [0..1].
        experience: Weight of the similarity to the nearest question that was answered, and verified, before [0..1].

    Raises:
        InvalidExperienceWeights: On construction, for a negative weight or a sum other than 1.
    """

    knowledge: float = 0.5
    experience: float = 0.5

    def __post_init__(self) -> None:
        weights = [getattr(self, source) for source in SOURCES]
        if not sums_to_one(weights):
            raise InvalidExperienceWeights(
                f"weights of knowledge and experience must be >= 0 and sum to 1; they are {weights}"
            )


DEFAULT_WEIGHTS = ExperienceWeights()


@value
class SimilarityCalibration:
    """This calibration maps a cosine of one encoder to a similarity.

    It is 0 up to the floor, 1 from the ceiling, and a straight line between.

    Attributes:
        floor: Cosine [-1..1] that the nearest of many texts rarely exceeds when none has to do with the question.
        ceiling: Cosine [-1..1] that half of the paraphrases reach.
        encoder: Encoder that both were measured on; another one's cosines are of another scale.

    Source:
        Ours (papers.md 1.1), by `python -m bench similarity`: of 78 unrelated texts the nearest is at 0.28 (median) and
        0.35 (third quartile), a paraphrase at 0.86 (median), a passage that answers a question at 0.58 (median).

    Raises:
        InvalidCalibration: On construction, when the floor is not below the ceiling, or either is no cosine.
    """

    floor: float = 0.35
    ceiling: float = 0.85
    encoder: str = "all-MiniLM-L6-v2"

    def __post_init__(self) -> None:
        if not -1 <= self.floor < self.ceiling <= 1:
            raise InvalidCalibration(
                f"the similarity's floor {self.floor} must lie below its ceiling {self.ceiling}, both in [-1, 1]"
            )

    def of(self, cosine: float) -> float:
        """Return the similarity that `cosine` [-1..1] stands for [0..1].

        Example:
            >>> calibration = SimilarityCalibration(floor=0.2, ceiling=0.8)
            >>> [calibration.of(cosine) for cosine in (-0.1, 0.2, 0.5, 0.8, 1.0)]
            [0.0, 0.0, 0.5, 1.0, 1.0]
        """
        share = (cosine - self.floor) / (self.ceiling - self.floor)
        return round(min(1.0, max(0.0, share)), 12)


DEFAULT_CALIBRATION = SimilarityCalibration()


@value
class ExperienceMatch:
    """This value is the EM of a conversation, or that of an agent with a question.

    Attributes:
        value: How much of it is known [0..1]; None when that is unknown.
        reason: Why it is unknown; empty when it is known.
        parts: `knowledge_similarity` and `experience_similarity` [0..1], calibrated; of the sources that hold anything.
    """

    value: float | None
    reason: str = ""
    parts: Mapping[str, float]


def experience_match(
    cosines: Mapping[str, float | None],
    *,
    weights: ExperienceWeights,
    calibration: SimilarityCalibration,
    covers: bool = False,
) -> ExperienceMatch:
    """Return EM as the weighted mean of the calibrated similarities of the sources that say something.

    A source says something where a text in it is near. Where nothing in it is near, it says that the question is not
    known only if what is stored covers the questions of the deployment.

    Args:
        cosines: Cosine [-1..1] of the nearest stored text, by the names of `SOURCES`; None for an empty source.
        weights: What each source counts; those of the sources that say something are rescaled to sum to 1.
        calibration: What a cosine is worth; nothing is near whose similarity is 0.
        covers: Whether what is stored covers the questions of the deployment.

    Source:
        MSV, state vector (papers.md 1.1). A source that says nothing is left out, and two of them leave EM unknown,
        never 0.

    Example:
        >>> even, line = ExperienceWeights(), SimilarityCalibration(floor=0.2, ceiling=0.8)
        >>> experience_match({"knowledge": 0.8, "experience": 0.5}, weights=even, calibration=line).value
        0.75
        >>> experience_match({"knowledge": 0.1, "experience": 0.5}, weights=even, calibration=line).value
        0.5
        >>> experience_match({"knowledge": 0.1, "experience": 0.5}, weights=even, calibration=line, covers=True).value
        0.25
    """
    held = {source: calibration.of(cosine) for source in SOURCES if (cosine := cosines.get(source)) is not None}
    parts = {f"{source}_similarity": similarity for source, similarity in held.items()}
    informative = {source: similarity for source, similarity in held.items() if similarity or covers}
    match = weighted_mean(list(informative.values()), [getattr(weights, source) for source in informative])
    if match is not None:
        return ExperienceMatch(value=match, parts=parts)
    if any(getattr(weights, source) for source in held):
        return ExperienceMatch(value=None, reason=NOTHING_STORED_NEAR, parts=parts)
    reason = f"{NOTHING_STORED} in a source that counts" if held else NOTHING_STORED
    return ExperienceMatch(value=None, reason=reason, parts=parts)


def agent_experience(
    cosine: float | None, *, calibration: SimilarityCalibration, covers: bool = False
) -> ExperienceMatch:
    """Return EM of an agent: the match with the nearest question that this agent answered right.

    Args:
        cosine: Cosine [-1..1] of that question; None where there is none.
        calibration: What a cosine is worth.
        covers: Whether what agents answered right covers the questions of the deployment, so that a question with
            nothing near is one that the agent has no experience with; if not, that says nothing.

    Source:
        Ours (papers.md 5.5).

    Example:
        >>> line = SimilarityCalibration(floor=0.2, ceiling=0.8)
        >>> agent_experience(0.5, calibration=line).value, agent_experience(0.1, calibration=line).value
        (0.5, None)
    """
    if cosine is None:
        return ExperienceMatch(value=None, reason=NO_RIGHT_ANSWER, parts={})
    similarity = calibration.of(cosine)
    parts = {"experience_similarity": similarity}
    if not similarity and not covers:
        return ExperienceMatch(value=None, reason=NOTHING_NEAR, parts=parts)
    return ExperienceMatch(value=similarity, parts=parts)
