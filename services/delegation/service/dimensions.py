"""Dimensions of competence are configured in a file; those of a task are named or classified."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from configuration.dimensions import Dimension, prototypes_of
from inference import Call, Prototypes, UnparsableOutput, WorkKind, read_document
from kernel.conversation import chat_of_prompt
from kernel.errors import MalformedRequest, MetacogError
from services.delegation import prompts
from services.delegation.core.keywords import keyword_dimension
from services.delegation.errors import UnknownDimension
from services.delegation.service.task_context import TaskContext
from services.delegation.service.values import DimensionClassifier, ProcessRequest, SelfAssessRequest, TaskDimension


def check_dimension(name: str, known: Sequence[str] | Mapping[str, object], *, field: str = "dimension") -> None:
    """Return if there is a dimension of that name; an error names the `field` of the request that states it.

    Raises:
        UnknownDimension: When there is not.
    """
    if name not in known:
        message = f"dimension {name!r} is not configured; there are {', '.join(known)}"
        raise UnknownDimension(message, field=field, dimension=name)


CLASSIFY_MAX_TOKENS = 96
MAX_DIMENSIONS = 3
# A second dimension counts from this certainty on [0..1].
SECOND_CERTAINTY = 0.5
# A second dimension counts from this share of the likelihood on [0..1].
SECOND_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionFinder:
    """The finder finds the dimensions of a task: those that the request names, or those that a classifier finds.

    Attributes:
        dimensions: The configured dimensions, and those that were adopted.
        refresh: Reads the adopted dimensions again, when that is due.
        prototypes: Classifies by embedding.
        classifier: How dimensions are found where the request does not choose.
    """

    dimensions: Callable[[], Sequence[Dimension]]
    refresh: Callable[[], Awaitable[None]]
    prototypes: Prototypes
    classifier: DimensionClassifier

    def keywords(self) -> dict[str, Sequence[str]]:
        """Return the keywords of each dimension."""
        return {each.id: each.keywords for each in self.dimensions()}

    async def find(self, request: ProcessRequest | SelfAssessRequest, task: TaskContext) -> list[TaskDimension]:
        """Return the dimensions of a task.

        Raises:
            MalformedRequest: When both `dimension` and `dimensions` are given.
            UnknownDimension: For one that is not configured.
            MetacogError: When the classifier cannot be called.
        """
        if request.dimension and request.dimensions:
            raise MalformedRequest("give either dimension or dimensions", field="dimension")
        await self.refresh()
        known = self.dimensions()
        named = list(dict.fromkeys([request.dimension] if request.dimension else request.dimensions))
        for name in named:
            field = "dimension" if request.dimension else "dimensions"
            check_dimension(name, [each.id for each in known], field=field)
        if named:
            return [TaskDimension(dimension=name) for name in named]
        if len(known) == 1:
            return [TaskDimension(dimension=known[0].id, certainty=1.0)]
        match request.classifier or self.classifier:
            case DimensionClassifier.EMBEDDING:
                timeout_s = task.spend.seconds_left()
                return await classified_by_embedding(task.question, known, self.prototypes, timeout_s=timeout_s)
            case DimensionClassifier.MODEL:
                return await classified_by_model(task, known)


async def classified_by_model(task: TaskContext, known: Sequence[Dimension]) -> list[TaskDimension]:
    """Return the dimensions of the task as a model chooses them, by falling certainty.

    When the model fails, takes more than half of the time that is left, or gives no readable reply in two attempts,
    keywords decide, and the answer is degraded.
    """
    problem = ""
    try:
        async with task.half_of_time_left():
            for attempt in (1, 2):
                call = _call(task, known, attempt)
                completion = await task.model_clients.assessor().complete(call, task.spend)
                try:
                    return chosen(
                        read_document(completion.samples[0].text, schema([each.id for each in known])).content
                    )
                except UnparsableOutput as unreadable:
                    problem = unreadable.message
    except TimeoutError:
        problem = "it took too long"
    except MetacogError as error:
        problem = f"{error.reason}: {error.message}"
    task.degraded_reasons.append(f"the model did not name a dimension ({problem}); keywords decided")
    return [by_keyword(task.question, known)]


def _call(task: TaskContext, known: Sequence[Dimension], attempt: int) -> Call:
    descriptions = {each.id: each.description for each in known}
    prompt = task.recorded(prompts.classification(question=task.question, dimensions=descriptions))
    return Call(
        messages=chat_of_prompt("", prompt.text),
        max_tokens=CLASSIFY_MAX_TOKENS,
        schema=schema(list(descriptions)),
        temperature=0.0 if attempt == 1 else 0.7,
        seed=task.seed_of("classify", str(attempt)),
        thinking=False,
        stage="classify",
        work=WorkKind.ASSESS,
    )


def schema(names: Sequence[str]) -> Mapping[str, Any]:
    """Return the JSON schema of a choice among dimensions."""
    item = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": list(names)},
            "sure": {"type": "integer", "minimum": 0, "maximum": 100},
        },
        "required": ["name", "sure"],
        "additionalProperties": False,
    }
    listed = {"type": "array", "items": item, "minItems": 1, "maxItems": MAX_DIMENSIONS}
    return {
        "type": "object",
        "properties": {"abilities": listed},
        "required": ["abilities"],
        "additionalProperties": False,
    }


def chosen(document: Any) -> list[TaskDimension]:  # noqa: ANN401 - a document that follows the schema
    """Return the dimensions of a choice by falling certainty: the first, and others that are more likely than not."""
    certainties: dict[str, float] = {}
    for item in document["abilities"]:
        certainties[item["name"]] = max(certainties.get(item["name"], 0.0), item["sure"] / 100)
    ranked = sorted(certainties.items(), key=lambda each: -each[1])
    found = ranked[:1] + [each for each in ranked[1:] if each[1] >= SECOND_CERTAINTY]
    return [TaskDimension(dimension=name, certainty=certainty) for name, certainty in found]


def by_keyword(question: str, known: Sequence[Dimension]) -> TaskDimension:
    """Return the dimension whose keywords the task holds; the first one, where it holds none."""
    found = keyword_dimension(question, {each.id: each.keywords for each in known})
    return TaskDimension(dimension=found or known[0].id, certainty=0.0)


async def classified_by_embedding(
    question: str, known: Sequence[Dimension], prototypes: Prototypes, *, timeout_s: float
) -> list[TaskDimension]:
    """Return the dimensions of the task by falling likelihood; keywords decide where no dimension has a prototype.

    Raises:
        EncoderUnavailable: When the encoder cannot be reached or does not answer in time.
    """
    shares = await prototypes.likelihoods(question, prototypes_of(known), timeout_s=timeout_s)
    if not shares:
        return [by_keyword(question, known)]
    ranked = list(shares.items())
    found = ranked[:1] + [each for each in ranked[1:MAX_DIMENSIONS] if each[1] >= SECOND_SHARE]
    return [TaskDimension(dimension=name, certainty=round(share, 9)) for name, share in found]
