"""These rules say whether the next turn of a conversation still belongs to the task that was assessed.

Source: ours (papers.md 1.1), from the words alone, without a model call. The rules know English and err towards a new
assessment: a decision cached wrongly may give a hard question a hasty answer, a new one only costs a little time. So a
turn counts as a follow-up only where it leans on earlier turns (`and in Celsius?`, `make it shorter`) and brings hardly
a new word.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

from kernel.activation import Route


class TurnKind(StrEnum):
    """A turn kind is the relation of a turn to the task before it."""

    FOLLOW_UP = "FOLLOW_UP"
    THANKS = "THANKS"
    DOUBT = "DOUBT"
    DEMAND = "DEMAND"
    NEW = "NEW"


# Longer turns have enough content to stand on their own [words].
LONGEST_FOLLOW_UP = 25
# Words with a meaning of their own that a follow-up may bring, and one that asks for an edit, which is then a demand.
NEW_WORDS, NEW_WORDS_EDIT = 1, 3
# Words shared with the task that show it is still the same one, in a turn that leans on nothing.
SHARED_WORDS = 2


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


OPENERS = _words("and but so also then now why or plus")
QUESTIONS = _words(
    "what who whom whose which when where why how is are was were am do does did can could will would shall should may"
    " might has have had"
)
POINTERS = _words(
    "it its that this these those they them their he she him her his there same above previous again instead one ones"
    " former latter"
)
EDITS = _words(
    "make made change add remove drop delete rename replace fix use keep move turn convert rewrite extend handle put"
    " include skip shorten expand"
)
MANNER = _words(
    "explain elaborate continue go further more less shorter longer simpler briefer detail details detailed example"
    " examples summary summarise summarize rephrase reword translate step steps list table bullet bullets points format"
    " formal tone sentence sentences else mean means meant clarify repeat"
)
DOUBTS = _words(
    "sure certain wrong incorrect correct right mistake mistaken error check doubt really no nope not true false"
)
DEMANDS = _words(
    "prove proof proven derive derivation rigorous rigorously formally verify optimal optimise optimize complexity"
    " analyse analyze implement design solve generalise generalize thorough thoroughly exhaustive comprehensive compare"
    " exactly"
)
GRAMMAR = _words(
    "a an the of in on at to for from with without by as into about over under between than if because i you we me my"
    " your our us be been being s t re ll ve d m don didn doesn isn aren wasn won please just like some any each every"
    " all much many very too only still up out off let give show tell want need get know think say says said there"
)
PLEASANTRIES = _words(
    "thanks thank you thx ty cheers great good nice perfect awesome cool excellent wonderful brilliant lovely ok okay"
    " yes yep got it i see understood that s helps helped helpful is was makes sense so very much a lot for your the"
    " help bye goodbye really all now then well done"
)
# One of these makes pleasantries of what else is polite.
THANKFUL = _words(
    "thanks thank thx ty cheers great perfect awesome cool excellent wonderful brilliant lovely nice ok okay understood"
    " got see helps helped helpful bye goodbye sense good"
)
WITHOUT_CONTENT = GRAMMAR | QUESTIONS | OPENERS | POINTERS | EDITS | MANNER | DOUBTS | DEMANDS | PLEASANTRIES

SWITCH = re.compile(
    r"\b((new|next|another|different|separate|unrelated|other) (question|topic|subject|task|problem|thing)"
    r"|something (else|different)|unrelated|by the way|btw|change (of|the) (subject|topic)|forget (that|it|about)"
    r"|never ?mind|moving on|start over)\b"
)
# Material that a turn brings along: a text after a colon, a quotation, code.
MATERIAL = re.compile(r":\s+\S|[\"“”«»`]")
ABOUT = re.compile(r"(and |so |but |ok |okay )?(what|how) about\b")
POLITE = re.compile(r"((please|can you|could you|would you|will you|now|then|also|and|ok|okay|just) )*")


def turn_kind(last: str, questions: Sequence[str], answers: Sequence[str] = ()) -> TurnKind:
    """Return the relation of the turn `last` to a task.

    Args:
        last: The new turn of the user.
        questions: Turns of the user on the task so far, at least one.
        answers: Answers to them.

    Returns:
        `NEW` wherever nothing shows that it is the same task.

    Example:
        >>> turn_kind("and in Celsius?", ["How hot is it on Venus, in Fahrenheit?"]).value
        'FOLLOW_UP'
        >>> turn_kind("Why is the sky blue?", ["How hot is it on Venus, in Fahrenheit?"]).value
        'NEW'
    """
    text = " ".join(last.casefold().replace("\u2019", "'").split())
    words = _tokens(text)
    if not words or len(words) > LONGEST_FOLLOW_UP or SWITCH.search(text) or MATERIAL.search(last):
        return TurnKind.NEW
    if "?" not in text and set(words) <= PLEASANTRIES and THANKFUL & set(words):
        return TurnKind.THANKS
    known = _content([*questions, *answers])
    if not _follows(text, words, _content(questions), known):
        return TurnKind.NEW
    if DOUBTS & set(words):
        return TurnKind.DOUBT
    demands = DEMANDS & set(words) or len(_content([text]) - known) > NEW_WORDS
    return TurnKind.DEMAND if demands else TurnKind.FOLLOW_UP


def decision_holds(turn: TurnKind, system: Route) -> bool:
    """Return whether a decision for `system` holds for such a turn.

    A doubted or more demanding question is never left to System 1 unseen, and thanks are not deliberated on.
    """
    match turn:
        case TurnKind.FOLLOW_UP:
            return True
        case TurnKind.THANKS:
            return system is Route.SYSTEM_ONE
        case TurnKind.DOUBT | TurnKind.DEMAND:
            return system is Route.SYSTEM_TWO
        case TurnKind.NEW:
            return False


def _follows(text: str, words: Sequence[str], task: frozenset[str], known: frozenset[str]) -> bool:
    """Return whether a short turn leans on the task, or is about the same things."""
    content = _content([text])
    new, points = content - known, bool(POINTERS & set(words))
    opens = _without_thanks(words)[:1]
    leans = points or bool(OPENERS & set(opens)) or bool(DOUBTS & set(words)) or bool(ABOUT.match(text))
    edits = bool(EDITS & set(_tokens(text[_end(POLITE, text) :])[:1]))
    if not content:
        return leans or edits or bool((MANNER | DEMANDS) & set(words))
    if not (leans or edits):
        return len(content & task) >= SHARED_WORDS and len(new) <= NEW_WORDS and not any(map(str.isdigit, new))
    if not points and not content & known and _is_whole_question(words) and not ABOUT.match(text):
        return False
    return len(new) <= (NEW_WORDS_EDIT if edits and (points or content & known) else NEW_WORDS)


def _is_whole_question(words: Sequence[str]) -> bool:
    """Return whether, after words that only lead over, a whole question follows: it can stand on its own."""
    rest = [word for word in _without_thanks(words) if word not in OPENERS - {"why"}]
    return bool(rest) and rest[0] in QUESTIONS and len(rest) > 2


def _without_thanks(words: Sequence[str]) -> Sequence[str]:
    thanks = next((place for place, word in enumerate(words) if word not in PLEASANTRIES - OPENERS), len(words))
    return words[thanks:]


def _end(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.match(text)
    return match.end() if match else 0


def _tokens(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


def _content(texts: Sequence[str]) -> frozenset[str]:
    """Return the words with a meaning of their own, without the s of a plural."""
    words = {word for text in texts for word in _tokens(text)} - WITHOUT_CONTENT
    return frozenset(
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words
    )
