"""The command that repeats a run, as a report prints it. Pure."""

from shlex import quote


def command_line(command: str, **options: object) -> str:
    """Return the command that repeats a run, without the addresses of the services and the folder.

    Example:
        >>> command_line("compare", data="my questions", hub="", seed=0, max_tokens=None, live=True)
        "metacog eval compare --data 'my questions' --seed 0 --live"
    """
    given = {name: text for name, text in options.items() if text is not None and text is not False and text != ""}
    words = [
        option_name(name) if text is True else f"{option_name(name)} {quote(str(text))}" for name, text in given.items()
    ]
    return " ".join(["metacog eval", command, *words])


def option_name(name: str) -> str:
    """Return the option of a parameter.

    Example:
        >>> option_name("max_tokens")
        '--max-tokens'
    """
    return f"--{name.replace('_', '-')}"


def non_default(**options: tuple[float, float]) -> dict[str, float]:
    """Return the options that differ from their defaults.

    Args:
        options: Given value and default of each option.

    Example:
        >>> non_default(concurrency=(2, 1), timeout=(600, 600))
        {'concurrency': 2}
    """
    return {name: given for name, (given, default) in options.items() if given != default}
