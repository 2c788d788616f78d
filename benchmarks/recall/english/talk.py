"""What else is said in chats: replies, small talk, requests, and questions that nobody can answer."""

import itertools
import random
from collections.abc import Callable, Iterator

from benchmarks.recall.chats import Chat
from benchmarks.recall.english import names
from benchmarks.recall.english.kinds import Kind

ACKNOWLEDGEMENTS = (
    "Alright.",
    "Good to know, thanks.",
    "Very well, thanks.",
    "Thanks, that helps.",
    "Fine, thank you.",
)
DENIALS = (
    "I have no note about that.",
    "Nobody has told me so far.",
    "That is not something I was told.",
    "I cannot find anything on that.",
)
LEADS = ("", "", "", "Before I forget: ", "Something for your notes: ", "One thing to keep: ", "Note this down. ")
"""How a user begins to tell something."""

_TALK = (
    ("The {thing} in {town} was {state} today.", "I hope it is better tomorrow. Do you go there often?"),
    ("I spent the whole {time} in {town} looking at a {thing}.", "That sounds like time well spent."),
    ("Write two lines about a {state} {thing}.", "A {thing} stood {state} by the door, / and asked for nothing more."),
    ("How would you describe a {thing} to somebody from {town}?", "I would begin with its shape and what it is for."),
    ("What rhymes with {thing}?", "That depends on how you say it. Shall I list a few near rhymes?"),
    ("My {time} was {state}, the {thing} fell over.", "What a nuisance. Was anything damaged?"),
    ("Should I take a {thing} along to {town}?", "If there is room in the bag, why not."),
    ("Somebody left a {state} {thing} in front of our door.", "Perhaps a note in the hall helps to find its owner."),
    ("I read that {town} has a museum for every kind of {thing}.", "I would like to hear what you find there."),
    ("Explain in one sentence what a {thing} is good for.", "It makes a small task easier than bare hands would."),
    ("The {time} bus to {town} was {state} again.", "Perhaps the next one is less so."),
    ("I dreamt of a {state} {thing} in {town}.", "Dreams like to mix up what one saw during the day."),
    ("Is a {thing} a good present for a {state} day?", "A small card beside it would make it personal."),
    ("How do I clean a {thing} that is {state}?", "Lukewarm water and a soft cloth are a safe beginning."),
    ("They want to build a {thing} in the middle of {town}.", "What do the people who live there think of it?"),
    ("Give me a title for a story about a {thing} and {town}.", "How about: What the {thing} knew of {town}."),
)
_THINGS = [
    "ladle",
    "lantern",
    "tripod",
    "bench",
    "drum",
    "kettle",
    "pavilion",
    "rake",
    "mirror",
    "bridge",
    "carousel",
    "barrel",
    "hammock",
    "compass",
    "wheelbarrow",
    "sundial",
    "trampoline",
    "weathervane",
    "bell",
    "pump",
    "clock",
    "telescope",
    "flagpole",
    "fence",
    "ladder",
    "stove",
    "tent",
    "raft",
    "signpost",
]
_STATES = [
    "crooked",
    "quiet",
    "dusty",
    "crowded",
    "noisy",
    "freezing",
    "slippery",
    "late",
    "muddy",
    "broken",
    "shiny",
    "tiny",
    "wobbly",
    "gloomy",
    "sunny",
]
_TIMES = ("morning", "afternoon", "evening", "weekend", "lunch break")


def told(draw: random.Random, statement: str) -> Chat:
    """A chat in which a statement is made and acknowledged."""
    lead = draw.choice(LEADS)
    return Chat(turns=(("user", lead + statement), ("assistant", draw.choice(ACKNOWLEDGEMENTS))))


def asked_in_vain(draw: random.Random, question: str) -> Chat:
    """A chat in which a question found no answer."""
    return Chat(turns=(("user", question), ("assistant", draw.choice(DENIALS))))


def small_talk(draw: random.Random) -> Chat:
    """A chat about nothing that anybody will ask for."""
    said, reply = draw.choice(_TALK)
    fill = {
        "thing": draw.choice(_THINGS),
        "state": draw.choice(_STATES),
        "town": names.town(draw),
        "time": draw.choice(_TIMES),
    }
    return Chat(turns=(("user", said.format(**fill)), ("assistant", reply.format(**fill))))


def distractors(draw: random.Random, fresh: Callable[[], tuple[Kind, str]]) -> Iterator[Chat]:
    """Facts of the same kinds about other subjects (`fresh` gives them), small talk, questions asked in vain."""
    for _ in itertools.count():
        chance = draw.random()
        if chance < 0.5:
            kind, subject = fresh()
            yield told(draw, kind.state(draw, subject, kind.draw_value(draw)))
        elif chance < 0.9:
            yield small_talk(draw)
        else:
            kind, subject = fresh()
            yield asked_in_vain(draw, kind.ask(subject, reworded=draw.random() < 0.5))
