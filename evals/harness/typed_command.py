"""The command that makes a run again, as a report prints it. Pure."""

from shlex import quote


def typed(command: str, **options: object) -> str:
    """The command that makes a run again; the addresses of the services and the folder are left to its reader.

    Example:
        >>> typed("compare", data="my questions", hub="", seed=0, max_tokens=None, live=True)
        "metacog eval compare --data 'my questions' --seed 0 --live"
    """
    given = {name: text for name, text in options.items() if text is not None and text is not False and text != ""}
    words = [spelled(name) if text is True else f"{spelled(name)} {quote(str(text))}" for name, text in given.items()]
    return " ".join(["metacog eval", command, *words])


def spelled(name: str) -> str:
    """A parameter as it is typed.

    Example:
        >>> spelled("max_tokens")
        '--max-tokens'
    """
    return f"--{name.replace('_', '-')}"


def unusual(**options: tuple[float, float]) -> dict[str, float]:
    """The options that are not at their defaults.

    Args:
        options: What was given, and the default.

    Example:
        >>> unusual(concurrency=(2, 1), timeout=(600, 600))
        {'concurrency': 2}
    """
    return {name: given for name, (given, default) in options.items() if given != default}
