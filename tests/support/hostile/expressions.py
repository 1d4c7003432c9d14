"""Expressions that take long to compare."""


def hostile(letter: str) -> tuple[str, list[str]]:
    """An answer, and 100 right ones that it equals as a number, each of which takes half a second to compare."""
    equal = r"1-4\sin(x)^2\cos(x)^2+2\sin(x)^4\cos(x)^4"
    right = [rf"{equal}+\sin({number}x)^2+\cos({number}x)^2-1" for number in range(2, 102)]
    given, *right = [text.replace("x", letter) for text in (r"\sin(x)^8+\cos(x)^8", *right)]
    return given, right
