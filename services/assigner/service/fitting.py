"""Prompts that are made to fit: the texts in them are shortened until the model's context takes them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from chassis.inference.errors import PromptTooLong
from chassis.prompts import Prompt
from kernel.values import value

# Texts are not shortened below this to fit a prompt into a small context [tokens].
SHORTEST_INPUT = 32

T = TypeVar("T")


@value
class Built:
    """A prompt, and the names of the texts that were shortened for it."""

    prompt: Prompt
    cut: Sequence[str] = ()


async def fitted(
    build: Callable[[int], Built], send: Callable[[Built], Awaitable[T]], *, input_max_tokens: int
) -> tuple[T, Built]:
    """What comes of the first prompt that fits, and that prompt.

    Args:
        build: The prompt whose texts have so many tokens at most.
        send: Asks the model.
        input_max_tokens: Tokens that each text may have at first [count]; halved as long as the prompt is too long.

    Raises:
        PromptTooLong: When it does not fit however short its texts are.
        MetacogError: The refusal of the model.
    """
    tokens, built = input_max_tokens, build(input_max_tokens)
    while True:
        try:
            return await send(built), built
        except PromptTooLong:
            before = built.prompt.text
            while built.prompt.text == before:
                tokens //= 2
                if tokens < SHORTEST_INPUT:
                    raise
                built = build(tokens)
