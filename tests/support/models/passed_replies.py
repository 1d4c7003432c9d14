"""What a scripted server answers at other places than chat completions, as vLLM does.

Its vocabulary is the words of a text; a token is the length of its word.
"""

from collections.abc import Iterator, Sequence
from typing import Any

Body = dict[str, Any]

EMBEDDINGS = "/v1/embeddings"
PASSED_PATHS = (EMBEDDINGS, "/v1/completions", "/tokenize", "/detokenize", "/v1/rerank", "/v1/score")


def prompts_of(body: Body) -> Sequence[Any]:
    """The prompts of a completion."""
    prompt = body["prompt"]
    return prompt if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list) else [prompt]


def words_of(body: Body, prompt: Any) -> list[str]:  # noqa: ANN401 - a text or tokens
    """The words that continue a prompt: its own, as many as may be generated."""
    continued = prompt.split() if isinstance(prompt, str) else [f"<{token}>" for token in prompt]
    return [f" {word}" for word in continued[: body["max_tokens"]]]


def texts_of(body: Body) -> Iterator[tuple[int, list[str], str]]:
    """Index, words and reason to end of each text of a completion."""
    for place, prompt in enumerate(prompts_of(body)):
        for sample in range(body.get("n", 1)):
            words = words_of(body, prompt)
            ended = "length" if len(words) == body["max_tokens"] else "stop"
            yield place * body.get("n", 1) + sample, words, ended


def usage_of(body: Body) -> Body:
    """The usage of a completion: a word is a token."""
    read = sum(len(prompt.split()) if isinstance(prompt, str) else len(prompt) for prompt in prompts_of(body))
    written = sum(len(words) for _, words, _ in texts_of(body))
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def passed_reply(path: str, model: str, body: Body) -> Body:
    """The reply at a place."""
    match path:
        case "/v1/completions":
            choices = [
                {"index": index, "text": "".join(words), "logprobs": None, "finish_reason": ended}
                for index, words, ended in texts_of(body)
            ]
            head = {"id": "cmpl-1", "object": "text_completion", "created": 0, "model": model}
            return {**head, "choices": choices, "usage": usage_of(body)}
        case "/tokenize":
            words = (body.get("prompt") or body["messages"][-1]["content"]).split()
            return {"count": len(words), "max_model_len": 4096, "tokens": [len(word) for word in words]}
        case "/detokenize":
            return {"prompt": " ".join("x" * token for token in body["tokens"])}
        case "/v1/rerank":
            scored = [(document, shared(body["query"], document)) for document in body["documents"]]
            results = [
                {"index": index, "document": {"text": document}, "relevance_score": score}
                for index, (document, score) in enumerate(scored)
            ]
            return {"id": "rerank-1", "model": model, "usage": {"total_tokens": 7}, "results": results}
    return {
        "id": "score-1",
        "object": "list",
        "model": model,
        "data": [{"index": 0, "object": "score", "score": shared(body["text_1"], body["text_2"])}],
        "usage": {"prompt_tokens": 5, "total_tokens": 5},
    }


def passed_chunks(model: str, body: Body) -> Iterator[Body]:
    """The chunks of a streamed completion."""
    head = {"id": "cmpl-1", "object": "text_completion", "created": 0, "model": model}
    for index, words, ended in texts_of(body):
        for place, word in enumerate(words):
            last = ended if place + 1 == len(words) else None
            yield {**head, "choices": [{"index": index, "text": word, "logprobs": None, "finish_reason": last}]}
    if body.get("stream_options", {}).get("include_usage"):
        yield {**head, "choices": [], "usage": usage_of(body)}


def shared(one: str, other: str) -> float:
    """Share of the words of one text that the other has [0..1]."""
    words = set(one.split())
    return len(words & set(other.split())) / len(words)
