"""A model judges which long free texts mean the same, in few calls for many texts.

Source: ours (papers.md 2.3): never by cosine. The model judges only pairs that the kernel's guard allows, and the
kernel merges only what every pair of the two clusters allows. Answers are compared with one reference of each group,
the most frequent one; an answer that matches none becomes a reference itself, as long as rounds are left.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from kernel.answers import AnswerType, candidate_pairs, canonical
from kernel.errors import MetacogError

Match = Callable[[Sequence[str], Sequence[str]], Awaitable[Sequence[int]]]

# Rounds of calls after each batch of samples, and answers and references in one call.
MOST_ROUNDS = 6
MOST_ANSWERS = 12
MOST_REFERENCES = 8


class MeaningJudge:
    """The judge groups texts that mean the same; groups grow with each batch of samples, and no judgement is revised.

    Args:
        match: Returns for each answer the reference that means the same.
    """

    def __init__(self, match: Match) -> None:
        self._match = match
        self._group: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def __call__(self, a: str, b: str) -> bool:
        """Return whether two texts were judged to mean the same."""
        first, second = self._group.get(_form(a)), self._group.get(_form(b))
        return first is not None and first == second

    @property
    def judged(self) -> int:
        """Return the number of texts judged so far [count]; it grows with every change."""
        return len(self._group)

    async def judge(self, answers: Sequence[str]) -> str:
        """Judge the new ones of `answers`; return why that failed, and then each of them is a group of its own.

        Args:
            answers: All answers so far, as the samples spell them.
        """
        partners = await asyncio.to_thread(self._partners, answers)
        counts = Counter(_form(answer) for answer in answers)
        fresh = sorted((form for form in partners if form not in self._group), key=lambda form: (-counts[form], form))
        try:
            left = await self._placed(fresh, self._references(partners), partners)
            for _ in range(MOST_ROUNDS):
                if not left:
                    break
                self._group[left[0]] = left[0]
                left = await self._placed(left[1:], [left[0]], partners)
        except MetacogError as error:
            return f"{error.reason}: answers were not compared by meaning: {error.message}"
        finally:
            for form in fresh:
                self._group.setdefault(form, form)
        return ""

    def _partners(self, answers: Sequence[str]) -> dict[str, set[str]]:
        """Return for each text those that may mean the same."""
        found: dict[str, set[str]] = {}
        for pair in candidate_pairs(answers, AnswerType.TEXT):
            a, b = map(_form, pair)
            self._texts |= {a: pair[0], b: pair[1]}
            found.setdefault(a, set()).add(b)
            found.setdefault(b, set()).add(a)
        return found

    def _references(self, partners: dict[str, set[str]]) -> list[str]:
        return [form for form in dict.fromkeys(self._group.values()) if form in partners]

    async def _placed(self, forms: list[str], references: list[str], partners: dict[str, set[str]]) -> list[str]:
        """Put each of `forms` that means the same as a reference into its group; return the others, in their order."""
        for start in range(0, len(references), MOST_REFERENCES):
            some = references[start : start + MOST_REFERENCES]
            candidates = [form for form in forms if form not in self._group and partners[form] & set(some)]
            for at in range(0, len(candidates), MOST_ANSWERS):
                await self._match_some(candidates[at : at + MOST_ANSWERS], some, partners)
        return [form for form in forms if form not in self._group]

    async def _match_some(self, forms: list[str], references: list[str], partners: dict[str, set[str]]) -> None:
        places = await self._match([self._texts[form] for form in references], [self._texts[form] for form in forms])
        for form, place in zip(forms, places, strict=True):
            reference = references[place - 1] if 0 < place <= len(references) else None
            if reference is not None and reference in partners[form]:
                self._group[form] = self._group[reference]


def _form(text: str) -> str:
    return canonical(text, AnswerType.TEXT) or text
