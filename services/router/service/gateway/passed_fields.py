"""The fields of a chat request that reach a model server are listed; whatever else a request has is an error.

A server may have fields that choose other models, another place in its queue, services with a price of their own, or
a template for its prompts. What a caller sends must not get around the envelope and the operator by any of them, so
only fields whose effect is known pass. The operator may let more through.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inference import LIMIT_ALIASES
from kernel.errors import MalformedRequest
from kernel.policy import Strategy

SETTING = "METACOG_ROUTER_PASSED_FIELDS"

PASSED = frozenset(
    {
        # read by the gateway itself
        *("model", "messages", "metacog", "stream", "stream_options"),
        # OpenAI's fields of sampling, of the answer's form, and of tools
        *("temperature", "top_p", "n", "seed", "stop", "max_tokens", "max_completion_tokens", "reasoning_effort"),
        *("presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs"),
        *("response_format", "modalities", "audio", "verbosity"),
        *("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"),
        # who asks and for what: no server generates more or less by them
        *("user", "safety_identifier", "prompt_cache_key", "metadata"),
        # vLLM's
        *("top_k", "min_p", "repetition_penalty", "stop_token_ids", "structured_outputs", "chat_template_kwargs"),
        # vLLM's that `max_tokens` bounds, or that change how the text is cut and shown
        *("min_tokens", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens"),
        *("include_stop_str_in_output", "bad_words", "allowed_token_ids"),
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar"),
        *("guided_whitespace_pattern", "guided_decoding_backend"),
    }
)

# Fields that System 2 uses, and those that say who asks and for what.
_USED_BY_SYSTEM_TWO = frozenset(
    {
        *("model", "messages", "metacog", "stream", "stream_options", "max_tokens", "max_completion_tokens"),
        *("seed", "stop", "temperature", "n", "response_format", "logprobs", "tools", "functions", "store"),
        *("user", "safety_identifier", "prompt_cache_key", "metadata"),
    }
)
# Types of tools that the caller runs; servers run others themselves.
_TOOL_TYPES = frozenset({"function", "custom"})
# What vLLM's template arguments may replace besides the template's own variables.
_TEMPLATE_ARGUMENTS = frozenset({"chat_template", "tokenize", "return_dict", "return_tensors"})


def ignored_fields(body: Mapping[str, Any], strategy: str) -> Sequence[str]:
    """Return the fields of a chat request that the strategy which answered has no use for.

    Args:
        body: The request, without fields that are null.
        strategy: The strategy; System 1 uses every field.

    Example:
        >>> ignored_fields({"model": "metacog", "temperature": 0.2, "top_p": 0.9}, "dialectic")
        ['temperature', 'top_p']
        >>> ignored_fields({"model": "metacog", "temperature": 0.2, "top_p": 0.9}, "arbiter")
        ['top_p']
    """
    if strategy in ("", Strategy.SYSTEM_ONE):
        return []
    used = _USED_BY_SYSTEM_TWO - ({"temperature"} if strategy == Strategy.DIALECTIC else frozenset())
    return sorted(name for name in body if name not in used)


class PassedFields:
    """These fields of a request pass.

    Args:
        more: Further fields that the operator lets through; `tools.<type>` is a type of tools that the server runs, and
            `chat_template_kwargs.<name>` an argument of the template that is not its own.
        base: Fields that pass in any case; those of a chat unless given.
    """

    def __init__(self, more: Iterable[str] = (), base: frozenset[str] = PASSED) -> None:
        self._more = frozenset(more)
        self._passed = base | LIMIT_ALIASES | self._more

    def check(self, body: Mapping[str, Any]) -> None:
        """Return if every field of `body` that is not null passes.

        `store` passes where it is false: the server is to store nothing, as without it. Other names of the limits, such
        as `best_of`, are left to the check of the call, which rejects them whatever the operator lets through.

        Raises:
            MalformedRequest: For the first field that does not pass; names it, and the setting that lets it.
        """
        for name, given in body.items():
            if given is not None and name not in self._passed and not (name == "store" and given is False):
                raise _not_passed(name, name)
        self._check_tools(body.get("tools"))
        arguments = body.get("chat_template_kwargs")
        for name in arguments if isinstance(arguments, dict) else ():
            path = f"chat_template_kwargs.{name}"
            if name in _TEMPLATE_ARGUMENTS and path not in self._more:
                raise _not_passed(path, path)

    def _check_tools(self, tools: object) -> None:
        for place, tool in enumerate(tools if isinstance(tools, list) else ()):
            kind = tool.get("type") if isinstance(tool, dict) else None
            if kind is None:
                continue
            if not isinstance(kind, str):
                field = f"tools.{place}.type"
                raise MalformedRequest(f"{field} must be a text, e.g. 'function'", field=field)
            if kind not in _TOOL_TYPES and f"tools.{kind}" not in self._more:
                raise _not_passed(f"tools.{place}.type", f"tools.{kind}")


def _not_passed(field: str, allowed_as: str) -> MalformedRequest:
    message = (
        f"{field}: this field is not passed on to model servers; leave it out, or have the operator add "
        f"{allowed_as!r} to {SETTING}"
    )
    return MalformedRequest(message, field=field, setting=SETTING)
