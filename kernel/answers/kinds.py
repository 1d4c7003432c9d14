"""What kind of answer a question wants, and how answering ended."""

from enum import StrEnum


class AnswerType(StrEnum):
    """The form of an answer, which decides how it is extracted and when two answers are equal (SPEC 2.3)."""

    BOOLEAN = "BOOLEAN"
    CHOICE = "CHOICE"
    NUMBER = "NUMBER"
    TEXT = "TEXT"
    CODE = "CODE"
