"""The endpoints of model servers that the gateway passes on are listed, each with the fields that pass."""

from collections.abc import Mapping, Sequence

from inference import Place
from kernel.values import value
from services.router.service.runs.values import CallKind

# vLLM's fields of sampling, as for chats.
_SAMPLING = frozenset(
    {
        *("temperature", "top_p", "n", "seed", "stop", "max_tokens", "presence_penalty", "frequency_penalty"),
        *("logit_bias", "top_k", "min_p", "repetition_penalty", "stop_token_ids", "min_tokens", "ignore_eos"),
        *("skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output", "bad_words"),
        *("allowed_token_ids", "structured_outputs", "response_format", "guided_json", "guided_regex"),
        *("guided_choice", "guided_grammar", "guided_whitespace_pattern", "guided_decoding_backend"),
    }
)
_COMMON = frozenset({"model", "user", "metacog"})


@value
class PassedEndpoint:
    """A passed endpoint is one kind of call that goes to a model server as it came.

    Attributes:
        call: The kind of call.
        paths: Where the gateway takes it; the first is the one that is documented.
        place: Where model servers take it.
        fields: The fields that pass.
        inputs: Fields with what the model reads; of each group one is needed.
        generates: Whether the model writes texts.
    """

    call: CallKind
    paths: Sequence[str]
    place: Place
    fields: frozenset[str]
    inputs: Sequence[Sequence[str]]
    generates: bool = False


ENDPOINTS: Mapping[CallKind, PassedEndpoint] = {
    endpoint.call: endpoint
    for endpoint in (
        PassedEndpoint(
            call=CallKind.COMPLETION,
            paths=("/v1/completions",),
            place=Place(path="/completions"),
            fields=_COMMON
            | _SAMPLING
            | {"prompt", "suffix", "echo", "logprobs", "stream", "stream_options"}
            | {"add_special_tokens", "truncate_prompt_tokens"},
            inputs=(("prompt",),),
            generates=True,
        ),
        PassedEndpoint(
            call=CallKind.EMBEDDING,
            paths=("/v1/embeddings",),
            place=Place(path="/embeddings"),
            fields=_COMMON | {"input", "encoding_format", "dimensions", "add_special_tokens", "truncate_prompt_tokens"},
            inputs=(("input",),),
        ),
        PassedEndpoint(
            call=CallKind.TOKENIZE,
            paths=("/tokenize",),
            place=Place(path="/tokenize", at_root=True),
            fields=_COMMON
            | {"prompt", "messages", "content", "tools", "add_special_tokens", "add_generation_prompt"}
            | {"continue_final_message", "return_token_strs", "chat_template_kwargs"}
            | {"add_special", "parse_special", "with_pieces"},
            inputs=(("prompt", "messages", "content"),),
        ),
        PassedEndpoint(
            call=CallKind.DETOKENIZE,
            paths=("/detokenize",),
            place=Place(path="/detokenize", at_root=True),
            fields=_COMMON | {"tokens"},
            inputs=(("tokens",),),
        ),
        PassedEndpoint(
            call=CallKind.RERANK,
            paths=("/v1/rerank", "/rerank"),
            place=Place(path="/rerank"),
            fields=_COMMON | {"query", "documents", "top_n", "return_documents", "truncate_prompt_tokens"},
            inputs=(("query",), ("documents",)),
        ),
        PassedEndpoint(
            call=CallKind.SCORE,
            paths=("/v1/score", "/score"),
            place=Place(path="/score"),
            fields=_COMMON | {"text_1", "text_2", "truncate_prompt_tokens"},
            inputs=(("text_1",), ("text_2",)),
        ),
    )
}
# No model works for these: a server only looks its vocabulary up.
WITHOUT_MODEL = frozenset({CallKind.TOKENIZE, CallKind.DETOKENIZE})
