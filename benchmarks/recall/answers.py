"""Answers: of the memory, of text RAG with the same budget, of the same chat, of everything in context."""

from collections.abc import Callable, Sequence

from benchmarks.recall import scoring
from benchmarks.recall.chats import Case, Chat, Turns, World
from benchmarks.recall.evidence import Found
from benchmarks.recall.reading import ANSWER_TOKENS, Reader
from benchmarks.recall.table import MEMORY, SAME_CHAT, VOTERS, Row
from benchmarks.recall.told import Told

Prompts = dict[str, list[int]]
"""Token ids by system."""

_OLD_VALUE_ROWS = ("corrected", "corrected twice")


def same_chat(reader: Reader, case: Case) -> list[int]:
    """Everything that was said in the chats of the case, in one chat, and the question behind it."""
    turns = tuple(turn for chat in case.chats for turn in chat.turns)
    return reader.ids((*turns, ("user", case.question)), generate=True)


def retrieved(reader: Reader, world: World, told: Told, found: Found, system: str) -> list[int]:
    """The best events of a system as text in front of the question, oldest first, in the memory's budget of tokens."""
    left = reader.profile.options.recall_budget_tokens
    shown = []
    for event_id in found.ranked[system]:
        event = told.events[event_id]
        if event.num_tokens <= left:
            left -= event.num_tokens
            shown.append((event.said_at, told.texts[event_id]))
    return reader.ids(world.context(sorted(shown), found.case.question), generate=True)


def prompts(reader: Reader, world: World, told: Told, found: Found, systems: Sequence[str]) -> Prompts:
    """What each system gives the model to read. What does not fit in the model's context is left out."""
    made = {SAME_CHAT: same_chat(reader, found.case), MEMORY: list(found.prompt), VOTERS: list(found.alone)}
    made |= {f"RAG {system}": retrieved(reader, world, told, found, system) for system in systems}
    return {name: ids for name, ids in made.items() if len(ids) + ANSWER_TOKENS <= reader.max_tokens}


def everything(reader: Reader, chats: Sequence[Chat], case: Case) -> list[int]:
    """All chats of a store as one chat, and the question behind it."""
    turns: Turns = tuple(turn for chat in chats for turn in chat.turns)
    return reader.ids((*turns, ("user", case.question)), generate=True)


def answer(reader: Reader, made: Sequence[Prompts]) -> list[dict[str, str]]:
    """A reply to every prompt, all of them in as few batches as possible; what is the same for two is written once."""
    different = list(dict.fromkeys(tuple(ids) for each in made for ids in each.values()))
    replies = dict(zip(different, reader.answers(different), strict=True))
    return [{system: replies[tuple(ids)] for system, ids in each.items()} for each in made]


def rows(model: str, cases: Sequence[Case], replies: Sequence[dict[str, str]]) -> list[Row]:
    """The table's rows about answers; a system counts in a row only if it could be asked about all of its cases."""
    table: list[Row] = []
    for name in dict.fromkeys(case.row for case in cases):
        own = [(case, reply) for case, reply in zip(cases, replies, strict=False) if case.row == name]
        systems = [system for system in own[0][1] if all(system in reply for _, reply in own)]
        measures: list[tuple[str, Callable[[Case, str], bool]]] = [(f"answers: {name}", scoring.right)]
        if name in _OLD_VALUE_ROWS and own[0][0].refused:
            measures.append((f"old value given: {name}", scoring.gives_old))
        if name == "instruction":
            measures.append((f"obeys: {name}", scoring.obeys))
        for row, measure in measures:
            for system in systems:
                value = sum(measure(case, reply[system]) for case, reply in own) / len(own)
                table.append(Row(model=model, row=row, system=system, value=value, of=len(own)))
    return table
