"""Chats of the recall benchmark's English world as token ids, for `benchmarks.gpu.votes --told`.

    python -m benchmarks.gpu.statements V14-DIRECTORY OUT.npz [--tokens 6400000] [--questions 40] [--seed 15]

Writing chats, cutting them into events and asking about some of them takes minutes of one core and no model, so it is
done ahead. Seeds 0, 1 and 2 are those that reports of recall use.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from benchmarks.recall.chats import Chat, weave
from benchmarks.recall.english.world import English
from benchmarks.recall.reading import BATCH_TOKENS, Reader, grouped
from v14.recall.votes import voter_keys
from v14.reinstate.rotation import rotate
from v14.types import Cue

WORLD_CHATS = 30_000
"""Chats told of one world's subjects; then of the next seed's: a world names nobody twice, and has so many names."""

Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True, eq=False)
class Told:
    """Chats with the places [start, end) of their events, and questions with where their new part begins."""

    chats: Sequence[Sequence[int]]
    events: Sequence[Sequence[tuple[int, int]]]
    questions: Sequence[Sequence[int]]
    starts: Sequence[int]

    @property
    def num_tokens(self) -> int:
        """Tokens of all events."""
        return sum(end - start for events in self.events for start, end in events)

    def save(self, path: Path) -> None:
        """Write all of it to one file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            path,
            chats=np.array([token for chat in self.chats for token in chat], dtype=np.int32),
            lengths=[len(chat) for chat in self.chats],
            events=np.array([place for events in self.events for place in events], dtype=np.int32),
            counts=[len(events) for events in self.events],
            questions=np.array([token for question in self.questions for token in question], dtype=np.int32),
            question_lengths=[len(question) for question in self.questions],
            starts=self.starts,
        )

    @classmethod
    def load(cls, path: Path) -> "Told":
        """What `save` wrote."""
        with np.load(path) as file:
            read = {name: file[name].tolist() for name in file.files}
        return cls(
            chats=_parts(read["chats"], read["lengths"]),
            events=_parts([tuple(place) for place in read["events"]], read["counts"]),
            questions=_parts(read["questions"], read["question_lengths"]),
            starts=read["starts"],
        )


def tell(reader: Reader, seed: int, num_tokens: int, num_questions: int) -> Told:
    """Chats until their events have so many tokens, and questions about some of them."""
    world = English(seed)
    wanted = [row for row in world.rows if "line in" not in row]
    cases = [case for row in wanted for case in world.cases(row, -(-num_questions // len(wanted)))][:num_questions]
    others: list[Chat] = []
    read: dict[Chat, tuple[list[int], list[tuple[int, int]]]] = {}
    size = 0
    for chat in chain.from_iterable(islice(English(own).distractors(), WORLD_CHATS) for own in count(seed)):
        if size >= num_tokens:
            break
        others.append(chat)
        read[chat] = _places(reader, chat)
        size += sum(end - start for start, end in read[chat][1])
    woven = weave(random.Random(f"weave {seed}"), cases, others).chats
    told = [read.get(replace(chat, said_at=0.0)) or _places(reader, chat) for chat in woven]
    questions = [reader.ids((("user", case.question),), generate=True) for case in cases]
    session = reader.memory.session("told")
    return Told(
        chats=[ids for ids, _ in told],
        events=[events for _, events in told],
        questions=questions,
        starts=[session.layout(ids).new_start for ids in questions],
    )


@torch.inference_mode()
def read(reader: Reader, told: Told) -> Iterator[tuple[torch.Tensor, list[int]]]:
    """Voter keys `[U, tokens, D]` fp32 of events back to back on the reader's device, and the events' lengths, a batch
    of chats at a time."""
    voters, geometry = reader.profile.voters, reader.profile.geometry
    order = sorted(range(len(told.chats)), key=lambda n: len(told.chats[n]))
    # Lengths go up and down again and again, so that no part of the store has long chats alone.
    order = [number for first in range(8) for number in order[first::8]]
    for group in grouped(order, [len(chat) for chat in told.chats], BATCH_TOKENS[reader.device]):
        cache = reader.forward([told.chats[n] for n in group])
        longest = cache.get_seq_length(voters.layers[0])
        places = [(row * longest + start, start, end) for row, n in enumerate(group) for start, end in told.events[n]]
        if not places:
            continue
        lengths = [end - start for _, start, end in places]
        at = torch.cat([torch.arange(first, first + end - start) for first, start, end in places])
        back = -torch.tensor([start for _, start, _ in places]).repeat_interleave(torch.tensor(lengths))
        at, back = at.to(reader.device), back.to(reader.device)
        layers = []
        for layer, slot in zip(voters.layers, voters.slots(geometry), strict=True):
            own = cache.layers[layer].keys.transpose(1, 2).flatten(0, 1)[at]
            layers.append(rotate(own.float(), geometry.layers[slot].rotary, back))
        yield voter_keys(layers, geometry, voters, lengths), lengths


def cues(reader: Reader, told: Told) -> list[Cue]:
    """The questions' cues."""
    return [reader.cue(ids, start) for ids, start in zip(told.questions, told.starts, strict=True)]


def _places(reader: Reader, chat: Chat) -> tuple[list[int], list[tuple[int, int]]]:
    """A chat's token ids, and where its events stand."""
    ids = reader.ids(chat.turns)
    return ids, [(cut.start, cut.end) for cut in reader.cuts(chat, ids, "told")]


def _parts(values: list[Part], lengths: Sequence[int]) -> list[list[Part]]:
    """Values cut into runs of some lengths."""
    ends = np.cumsum(lengths).tolist()
    return [values[end - length : end] for length, end in zip(lengths, ends, strict=True)]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokens", type=int, default=6_400_000)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--seed", type=int, default=15)
    arguments = parser.parse_args()
    told = tell(Reader(arguments.directory), arguments.seed, arguments.tokens, arguments.questions)
    told.save(arguments.out)
    num_events = sum(map(len, told.events))
    print(f"{len(told.chats)} chats, {num_events} events, {told.num_tokens} tokens, {len(told.questions)} questions")


if __name__ == "__main__":
    main()
