"""Chats: stories woven into turns, with the questions of each kind and small talk between them."""

import random
from dataclasses import dataclass
from itertools import pairwise

from experiments.tiny_hybrid import vocabulary as words
from experiments.tiny_hybrid.names import Split
from experiments.tiny_hybrid.stories import KINDS, Item, Question, Templates, Writer, merge

TALK = "talk"
"""The kind of a reply of small talk, which is always the same."""

_MIX = (
    ("fact",) * 4
    + ("paraphrase",) * 4
    + ("corrected",) * 3
    + ("before",) * 2
    + ("two-step",) * 5
    + ("three-step",) * 3
    + ("count",) * 2
    + ("absent",) * 3
    + ("long-note",) * 3
)
_EASY = ("fact",) * 6 + ("paraphrase",) * 4 + ("corrected",) * 2 + ("two-step",) + ("absent",)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn. `kind` of an assistant's turn: of the question that it answers, `talk`, or nothing.

    A role of "" is the rest of a turn whose beginning was cut off.
    """

    role: str
    text: str
    kind: str = ""


def chat(draw: random.Random, split: Split = "train", *, num_stories: int = 6, easy: bool = False) -> list[Turn]:
    """A chat of several stories, everything asked for sooner or later."""
    writer = Writer(draw, split)
    mix = _EASY if easy else _MIX
    stories = [writer.by_kind[draw.choice(mix)]() for _ in range(num_stories)]
    talks = [[_talk(draw)] for _ in range(num_stories) if draw.random() < 0.3]
    if draw.random() < 0.4:
        items = merge(draw, stories + talks)
    else:
        told = [[item for item in story if not item.asks] for story in stories]
        asked = [[item for item in story if item.asks] for story in stories]
        # A question in the middle of a story holds only there, so a story that has one stays as it is.
        for number, story in enumerate(stories):
            if any(item.asks and not later.asks for item, later in pairwise(story)):
                told[number], asked[number] = story[:-1], story[-1:]
        cut = draw.randrange(len(talks) + 1)
        items = merge(draw, told + talks[:cut]) + merge(draw, asked + talks[cut:])
    return _turns(draw, items)


def question_chat(
    draw: random.Random, kind: str, split: Split = "eval", *, num_others: int = 3, templates: Templates = "seen"
) -> tuple[list[Turn], Question]:
    """A chat that ends with a user's question of a kind, and that question with its reply.

    `num_others` other stories are told in between, but not asked about. Raises `ValueError` on an unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind} is no kind of question: {', '.join(KINDS)}")
    writer = Writer(draw, split, templates)
    # The story in question comes first, so that it is the one that may speak of what it likes.
    story = [] if kind == "absent" else writer.by_kind[kind]()
    others = []
    for _ in range(num_others):
        other = writer.by_kind[draw.choice(("fact", "paraphrase", "corrected", "two-step", "long-note"))]()
        others.append([item for item in other if item.says])
    if kind == "absent":
        story = writer.absent()
    asks = story[-1].asks
    told = [item for item in story[:-1] if item.says]
    talks = [[_talk(draw)] for _ in range(2) if draw.random() < 0.4]
    turns = _turns(draw, [*merge(draw, [told, *others, *talks]), Item(asks=asks)])
    return turns[:-1], asks[-1]


def _talk(draw: random.Random) -> Item:
    text, reply = draw.choice(words.SMALL_TALK)
    return Item(asks=(Question(text=text, reply=reply, kind=TALK, value=reply),))


def _turns(draw: random.Random, items: list[Item]) -> list[Turn]:
    """Statements grouped or one by one, answered or not; the last turn is the reply to the last question."""
    turns: list[Turn] = []
    chance = draw.random()
    reply_share = 1.0 if chance < 0.55 else 0.0 if chance < 0.8 else 0.5
    group_share = draw.choice((0.0, 0.0, 0.3, 0.8))
    if draw.random() < 0.15:
        turns.append(Turn("system", draw.choice(words.SYSTEM_PROMPTS)))
    elif reply_share < 1 and draw.random() < 0.3:
        text = draw.choice(words.SMALL_TALK)[0]
        turns.append(Turn("", text[draw.randrange(len(text) // 2) :].lstrip()))
    waiting: list[str] = []

    def close(question: str = "") -> None:
        if waiting:
            turns.append(Turn("user", " ".join([*waiting, question] if question else waiting)))
            waiting.clear()
        elif question:
            turns.append(Turn("user", question))
        if not question and turns[-1].role == "user" and draw.random() < reply_share:
            turns.append(Turn("assistant", draw.choice(words.ACKNOWLEDGEMENTS)))

    for item in items:
        if item.says:
            if waiting and (item.alone or draw.random() >= group_share):
                close()
            waiting.append(item.says)
            if item.alone:
                close()
            continue
        for question in item.asks:
            if waiting and draw.random() < 0.9:
                close()
            close(question.text)
            turns.append(Turn("assistant", question.reply, question.kind))
    if waiting:
        close()
    return turns
