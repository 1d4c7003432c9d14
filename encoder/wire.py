"""This module reads and writes OpenAI's shapes for embeddings."""

import base64
from dataclasses import dataclass
from typing import Any

import orjson

from chassis.json_text import InvalidJson, loads_request
from encoder.errors import BadRequest, ModelNotFound
from encoder.model import Encoded
from encoder.settings import Settings

FORMATS = ("float", "base64")


@dataclass(frozen=True, slots=True)
class EmbeddingsRequest:
    """The request holds the checked fields of a body."""

    texts: list[str]
    as_base64: bool
    dimensions: int | None


def parse_request(body: bytes, model: str, settings: Settings) -> EmbeddingsRequest:
    """Read the body of a request.

    Raises:
        BadRequest: The body is not JSON, or a field is missing, of the wrong type or over a limit.
        ModelNotFound: The request names another model than `model`.
    """
    try:
        fields = loads_request(body)
    except InvalidJson as error:
        raise BadRequest(f"The body is not accepted: {error}") from error
    if not isinstance(fields, dict):
        raise BadRequest("The body must be a JSON object with the fields model and input")
    _check_model(fields.get("model"), model)
    encoding = fields.get("encoding_format") or "float"
    if encoding not in FORMATS:
        raise BadRequest(f"encoding_format must be one of {', '.join(FORMATS)}", param="encoding_format")
    dimensions = fields.get("dimensions")
    if dimensions is not None and (not isinstance(dimensions, int) or isinstance(dimensions, bool)):
        raise BadRequest("dimensions must be a whole number", param="dimensions")
    return EmbeddingsRequest(_texts(fields.get("input"), settings), encoding == "base64", dimensions)


def _check_model(model: object, served: str) -> None:
    if not isinstance(model, str) or not model:
        raise BadRequest(f"You must name a model; this server has {served}", param="model")
    if model.removeprefix("sentence-transformers/") != served:
        raise ModelNotFound(f"The model {model!r} does not exist; this server has {served}", param="model")


def _texts(value: object, settings: Settings) -> list[str]:
    """Return the texts of field `input`: a string or a list of strings."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise BadRequest("input must be a string or a list of strings, and not empty", param="input")
    if len(texts) > settings.max_inputs:
        raise BadRequest(f"input has {len(texts)} texts; at most {settings.max_inputs} are taken", param="input")
    for number, text in enumerate(texts):
        _check_text(text, number, settings.max_characters)
    return texts


def _check_text(text: object, number: int, most: int) -> None:
    if isinstance(text, (int, list)):
        raise BadRequest(
            "input must be text: token ids are not taken, since they belong to one tokenizer", param="input"
        )
    if not isinstance(text, str):
        raise BadRequest(f"input[{number}] is no string", param="input")
    if not text:
        raise BadRequest(f"input[{number}] is empty", param="input")
    if len(text) > most:
        raise BadRequest(f"input[{number}] has {len(text)} characters; at most {most} are taken", param="input")


def check_dimensions(requested: int | None, served: int) -> None:
    """Check that the model's vectors have the requested length.

    Raises:
        BadRequest: `requested` is another length than `served`.
    """
    if requested is not None and requested != served:
        raise BadRequest(f"The vectors of this model have {served} dimensions and cannot be cut", param="dimensions")


def embeddings_reply(encoded: Encoded, model: str, *, as_base64: bool) -> bytes:
    """Return the body of the answer, with vectors as lists of numbers, or as little-endian 32-bit floats in base64."""
    total = sum(encoded.tokens)
    data: list[dict[str, Any]] = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode() if as_base64 else vector,
        }
        for index, vector in enumerate(encoded.vectors)
    ]
    usage = {"prompt_tokens": total, "total_tokens": total}
    body = {"object": "list", "data": data, "model": model, "usage": usage}
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def models_reply(name: str, dimension: int, max_tokens: int) -> dict[str, Any]:
    """Return the list of models, with the dimension and the input length beside OpenAI's fields."""
    model = {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "metacog",
        "dimension": dimension,
        "max_input_tokens": max_tokens,
    }
    return {"object": "list", "data": [model]}
