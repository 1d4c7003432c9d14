"""The dimensions of competence, as the configuration has them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import Field

from configuration.yaml_file import YamlFile
from inference.embeddings import Embedded, Encoder
from inference.errors import UnparsableOutput
from inference.sampling.structured import read
from inference.values import Call
from inference.values import WorkKind as Pool
from kernel.errors import MetacogError
from kernel.values import value
from services.delegation import prompts
from services.delegation.core.keywords import keyword_dimension
from services.delegation.errors import UnknownDimension
from services.delegation.service.task_context import TaskContext, chat
from services.delegation.service.values import TaskDimension

Text = Annotated[str, Field(min_length=1)]


@value
class Dimension:
    """A kind of ability.

    Attributes:
        id: Identifier, e.g. `math_computation`.
        description: What it is, for the model that classifies.
        prototypes: Tasks that ask for it, for the nearest in meaning.
        keywords: Words that give it away, for the keyword baseline.
    """

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
    description: Text
    prototypes: Sequence[Text] = ()
    keywords: Sequence[Text] = ()


@value
class DimensionsFile:
    """The dimensions file."""

    dimensions: Annotated[Sequence[Dimension], Field(min_length=1, max_length=100)]


def read_dimensions(path: Path) -> tuple[Dimension, ...]:
    """Dimensions of the file at `path`.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the line and the reason.
    """
    file = YamlFile(path, DimensionsFile)
    listed = tuple(file.content.dimensions)
    for place, dimension in enumerate(listed):
        if dimension.id in [other.id for other in listed[:place]]:
            raise file.wrong(["dimensions", place], f"id {dimension.id!r} is used twice")
    return listed


def known_dimension(name: str, known: Sequence[str] | Mapping[str, object]) -> None:
    """Return if there is a dimension of that name.

    Raises:
        UnknownDimension: When there is not.
    """
    if name not in known:
        raise UnknownDimension(f"dimension {name!r} is not configured; there are {', '.join(known)}", dimension=name)


CLASSIFY_MAX_TOKENS = 96
MOST = 3
# A second dimension counts from this certainty on [0..1].
SECOND = 0.5
# Prototypes whose nearness makes the nearness of a dimension [count].
NEAREST = 3
# Difference in cosine that makes one dimension e times as likely as another.
SHARPNESS = 0.05
# A second dimension counts from this share of the likelihood on [0..1].
SECOND_SHARE = 0.3
EMBED_S = 10.0


class Embedder(Protocol):
    """The sentence encoder."""

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Embedded:
        """Vectors of `texts`."""


async def classified_by_model(work: TaskContext, known: Sequence[Dimension]) -> list[TaskDimension]:
    """Dimensions of the task as a model chooses them, surest first.

    A model that cannot be asked, or not in half of the time that is left, or not be read even after a second attempt,
    leaves the choice to keywords, and degrades the answer.
    """
    why = ""
    try:
        async with work.half_the_time():
            for attempt in (1, 2):
                completion = await work.voices.assessor().complete(_call(work, known, attempt), work.spend)
                try:
                    return chosen(read(completion.samples[0].text, schema([one.id for one in known])).content)
                except UnparsableOutput as unreadable:
                    why = unreadable.message
    except TimeoutError:
        why = "it took too long"
    except MetacogError as refusal:
        why = f"{refusal.reason}: {refusal.message}"
    work.reasons.append(f"the model did not name a dimension ({why}); keywords decided")
    return [by_keyword(work.question, known)]


def by_keyword(question: str, known: Sequence[Dimension]) -> TaskDimension:
    """The dimension whose keywords the task holds; the first one, where it holds none."""
    found = keyword_dimension(question, {one.id: one.keywords for one in known})
    return TaskDimension(dimension=found or known[0].id, certainty=0.0)


def schema(names: Sequence[str]) -> Mapping[str, Any]:
    """JSON schema of a choice among dimensions."""
    item = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": list(names)},
            "sure": {"type": "integer", "minimum": 0, "maximum": 100},
        },
        "required": ["name", "sure"],
        "additionalProperties": False,
    }
    listed = {"type": "array", "items": item, "minItems": 1, "maxItems": MOST}
    return {
        "type": "object",
        "properties": {"abilities": listed},
        "required": ["abilities"],
        "additionalProperties": False,
    }


def chosen(document: Any) -> list[TaskDimension]:  # noqa: ANN401 - a document that follows the schema
    """Dimensions of a choice, surest first: the surest one, and further ones that are more likely than not."""
    sure: dict[str, float] = {}
    for item in document["abilities"]:
        sure[item["name"]] = max(sure.get(item["name"], 0.0), item["sure"] / 100)
    ranked = sorted(sure.items(), key=lambda one: -one[1])
    kept = ranked[:1] + [one for one in ranked[1:] if one[1] >= SECOND]
    return [TaskDimension(dimension=name, certainty=certainty) for name, certainty in kept]


class Prototypes:
    """Dimensions by the nearest prototypes; vectors of the prototypes are kept for as long as the encoder is the same.

    Args:
        embedder: The sentence encoder.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._encoder: Encoder | None = None
        self._texts: tuple[str, ...] = ()
        self._vectors = np.zeros((0, 0), dtype=np.float64)

    async def classified(self, question: str, known: Sequence[Dimension], *, timeout_s: float) -> list[TaskDimension]:
        """Dimensions of the task, likeliest first.

        Raises:
            EncoderUnavailable: When the encoder cannot be reached or does not answer in time.
        """
        texts = tuple(text for one in known for text in one.prototypes)
        if not texts:
            return [by_keyword(question, known)]
        asked = await self._embedder.embed([question], timeout_s=min(EMBED_S, timeout_s))
        if asked.encoder != self._encoder or texts != self._texts:
            made = await self._embedder.embed(texts, timeout_s=timeout_s)
            self._encoder, self._texts, self._vectors = made.encoder, texts, _unit(made.vectors)
        cosines = self._vectors @ _unit(asked.vectors)[0]
        return _likeliest(known, cosines)


def _likeliest(known: Sequence[Dimension], cosines: Any) -> list[TaskDimension]:  # noqa: ANN401 - an array
    nearness: dict[str, float] = {}
    at = 0
    for one in known:
        if one.prototypes:
            own = np.sort(cosines[at : at + len(one.prototypes)])[::-1]
            nearness[one.id] = float(own[:NEAREST].mean())
        at += len(one.prototypes)
    levels = np.exp((np.array(list(nearness.values())) - max(nearness.values())) / SHARPNESS)
    shares = dict(zip(nearness, (levels / levels.sum()).tolist(), strict=True))
    ranked = sorted(shares.items(), key=lambda one: -one[1])
    kept = ranked[:1] + [one for one in ranked[1:MOST] if one[1] >= SECOND_SHARE]
    return [TaskDimension(dimension=name, certainty=round(share, 9)) for name, share in kept]


def _unit(vectors: Any) -> Any:  # noqa: ANN401 - an array
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)


def _call(work: TaskContext, known: Sequence[Dimension], attempt: int) -> Call:
    prompt = work.note(prompts.classification(question=work.question, dimensions={d.id: d.description for d in known}))
    return Call(
        messages=chat("", prompt.text),
        max_tokens=CLASSIFY_MAX_TOKENS,
        schema=schema([one.id for one in known]),
        temperature=0.0 if attempt == 1 else 0.7,
        seed=work.seed_of("classify", str(attempt)),
        thinking=False,
        stage="classify",
        work=Pool.ASSESS,
    )
