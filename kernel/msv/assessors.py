"""This module names the ways in which the state of a question is measured before it is answered."""

from enum import StrEnum


class AssessorName(StrEnum):
    """An assessor measures the state of a question."""

    # Labels of questions of the same kind, and the importance.
    ANSWERS = "answers"
    # The model rates everything.
    VERBALIZED = "verbalized"
    # Short samples and their agreement.
    PROBE = "probe"
    # A rating and short samples.
    HYBRID = "hybrid"
    # The System 1 answer is made first, and checked.
    DRAFT = "draft"
