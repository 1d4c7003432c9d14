"""A generated part of a page is between two markers; the rest of the page is written by hand."""


def replaced(page: str, text: str, begin: str, end: str, made: str) -> str:
    r"""Return a page with `made` between its markers.

    Args:
        page: Name of the page, for the error.
        text: The page.
        begin: The marker before the part.
        end: The marker behind it.
        made: What goes between them.

    Raises:
        ValueError: When the page does not have the markers.

    Example:
        >>> print(replaced("a.md", "# A\n<!-- b -->old<!-- e -->\n", "<!-- b -->", "<!-- e -->", "new"))
        # A
        <!-- b -->
        <BLANKLINE>
        new
        <!-- e -->
        <BLANKLINE>
    """
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"{page} needs {begin!r}, and behind it {end!r}")
    return f"{before}{begin}\n\n{made}\n{end}{after}"


def between(text: str, begin: str, end: str) -> str:
    r"""Return what a page has between two markers; empty where it does not have them.

    Example:
        >>> between("# A\n<!-- b -->\n\nnew\n<!-- e -->\n", "<!-- b -->", "<!-- e -->")
        'new'
    """
    _, found, rest = text.partition(begin)
    made, ended, _ = rest.partition(end)
    return made.removeprefix("\n\n").removesuffix("\n") if found and ended else ""
