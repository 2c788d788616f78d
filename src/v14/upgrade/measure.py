"""Measuring every candidate head on the calibration set, its share of attention for each question and event, and what
plans would weigh with the heads that were chosen."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from v14.config import Options
from v14.events.cut import Cutter
from v14.events.runs import contains, packed
from v14.events.words import Vocabulary
from v14.geometry import Geometry
from v14.recall.index import Index
from v14.recall.lexicon import Lexicon
from v14.recall.sketch import Sketch, fit
from v14.recall.space import Space
from v14.recall.voters import Voters
from v14.recall.votes import voter_keys
from v14.recall.weighing import MAX_WEIGHED, weigh
from v14.recall.wording import Wording
from v14.reinstate.rotation import rotate
from v14.types import Cue, Event
from v14.upgrade.calibration import CalibrationSet, Chat, Question
from v14.upgrade.reading import Reader
from v14.upgrade.sureness import Evidence
from v14.upgrade.turns import render

LAYER_SHARE = 2 / 3
"""Only heads in this first share of the layers may vote: the best sit in the middle of a network, and a probe that
needs no more than these layers can stop there."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """Shares of N events for M questions at V candidate heads; `sinks` as in `Voters`.

    shares: `[M, N, V]` fp32; null_shares: `[N, V]`; facts: `[N]` int64, the fact an event states, -1 for none; `asked`
    `[M]` int64, the fact a question should recall, -1 for none; allowed: `[M, N]` bool, False where an event stands in
    the question's own prompt (a plan never recalls that); held_out: `[M]` bool. `events`, `questions` and `prompts`
    (token ids of each question's new part) in that order.
    """

    heads: tuple[tuple[int, int], ...]
    sinks: tuple[float, ...]
    null: Cue
    events: tuple[Event, ...]
    questions: tuple[Question, ...]
    prompts: tuple[tuple[int, ...], ...]
    shares: torch.Tensor
    null_shares: torch.Tensor
    facts: torch.Tensor
    asked: torch.Tensor
    allowed: torch.Tensor
    held_out: torch.Tensor

    @property
    def strangers(self) -> torch.Tensor:
        """`[M]` bool: questions about what nothing was told of."""
        return torch.tensor([question.stranger for question in self.questions])

    def familiar(self) -> "Measurement":
        """The measurement without strangers."""
        kept = ~self.strangers
        places = kept.nonzero().flatten().tolist()
        return replace(
            self,
            questions=tuple(self.questions[place] for place in places),
            prompts=tuple(self.prompts[place] for place in places),
            shares=self.shares[kept],
            asked=self.asked[kept],
            allowed=self.allowed[kept],
            held_out=self.held_out[kept],
        )


def measure(
    reader: Reader,
    tokenizer: Any,
    cutter: Cutter,
    geometry: Geometry,
    texts: CalibrationSet,
    *,
    num_layers: int,
    cue_tokens: int,
    advance: Callable[[], None] = lambda: None,
) -> Measurement:
    """Read every chat and question once; `advance` is called after each."""
    heads = tuple((layer.index, head) for layer in geometry.layers[:num_layers] for head in range(geometry.num_heads))
    nobody = Cue(queries=torch.zeros(len(heads), 1, geometry.head_dim), context_lse=torch.zeros(len(heads), 1))
    everyone = Voters(
        heads=heads, weights=(1.0,) * len(heads), calibration="subtract", null=nobody, sinks=reader.sinks(heads)
    )

    def cue_of(ids: list[int]) -> Cue:
        return reader.cue(ids, new_part_start(cutter, ids), everyone, cue_tokens)

    null = cue_of(prompt_ids(tokenizer, texts.null))
    advance()
    everyone = replace(everyone, null=null)
    index = Index(geometry, everyone)
    events: dict[str, Event] = {}
    facts: dict[str, int] = {}
    for number, chat in enumerate(texts.chats):
        for event, keys, is_statement in _events(reader, tokenizer, cutter, geometry, everyone, chat, number):
            index.add(event.id, keys)
            events.setdefault(event.id, event)
            if is_statement and chat.fact is not None:
                facts[event.id] = chat.fact
        advance()
    rows, allowed, prompts = [], [], []
    for question in texts.questions:
        ids = prompt_ids(tokenizer, question.text)
        order, share = index.shares(cue_of(ids))
        rows.append(share)
        allowed.append([not contains(packed(ids), packed(events[id].body)) for id in order])
        prompts.append(tuple(ids[new_part_start(cutter, ids) :]))
        advance()
    return Measurement(
        heads=heads,
        sinks=everyone.sinks,
        null=null,
        events=tuple(events[id] for id in order),
        questions=texts.questions,
        prompts=tuple(prompts),
        shares=torch.stack(rows),
        null_shares=index.null_shares(),
        facts=torch.tensor([facts.get(id, -1) for id in order]),
        asked=torch.tensor([-1 if q.fact is None else q.fact for q in texts.questions]),
        allowed=torch.tensor(allowed),
        held_out=torch.tensor([q.held_out for q in texts.questions]),
    )


def measure_doubts(
    reader: Reader,
    tokenizer: Any,
    cutter: Cutter,
    geometry: Geometry,
    voters: Voters,
    texts: CalibrationSet,
    *,
    asks: Callable[[Event], bool],
    vocabulary: Vocabulary,
    floor: float,
    cue_tokens: int,
    advance: Callable[[], None] = lambda: None,
) -> tuple[list[Evidence], Sketch]:
    """Read every chat and question of a second set once, weigh what a plan would, and fit sketches to these keys and
    questions; `advance` is called after each."""
    index = Index(geometry, voters, form="bfloat16")
    space = Space(index=index, geometry=geometry, voters=voters, lexicon=Lexicon(vocabulary))
    stated: dict[int, set[str]] = {}
    read: list[torch.Tensor] = []
    for number, chat in enumerate(texts.chats):
        for event, keys, is_statement in _events(reader, tokenizer, cutter, geometry, voters, chat, number):
            space.add_all([event], [keys])
            read.append(keys)
            if is_statement and chat.fact is not None:
                stated.setdefault(chat.fact, set()).add(event.id)
        advance()
    options = Options.parse({"recall_floor": floor}, "calibration")
    found, cues = [], []
    for question in texts.questions:
        ids = prompt_ids(tokenizer, question.text)
        start = new_part_start(cutter, ids)
        cues.append(reader.cue(ids, start, voters, cue_tokens))
        ballot = space.votes(cues[-1])
        wording = Wording([space.lexicon], ids[start:])
        prompt = packed(ids)

        def recall(event_id: str, prompt: bytes = prompt) -> Event | None:
            event = space.events[event_id]
            return None if asks(event) or contains(prompt, packed(event.body)) else event

        weighed = weigh(ballot.best(MAX_WEIGHED), ballot.of, recall, options, wording, None)
        facts = [fact for fact in (question.fact, question.then) if fact is not None]
        needed = tuple(frozenset(stated[fact]) for fact in facts)
        late = space.late(cues[-1], [each.event.id for each in weighed])
        found.append(Evidence(question=question, weighed=tuple(weighed), needed=needed, wording=wording, late=late))
        advance()
    return found, fit(torch.cat(read, 1), cues, voters.key_rows(geometry).tolist())


def prompt_ids(tokenizer: Any, text: str) -> list[int]:
    """A question as a server gets it: rendered with the template and a generation prompt, or as it is without one."""
    if tokenizer.chat_template:
        return render(tokenizer, [{"role": "user", "content": text}], generate=True)
    return list(tokenizer(text)["input_ids"])


def new_part_start(cutter: Cutter, token_ids: list[int]) -> int:
    """Where the new part begins: at the last user turn; without turns, behind what the tokenizer puts in front."""
    starts = [turn.start for turn in cutter.turns.turns(token_ids) if turn.role == "user"]
    return starts[-1] if starts else 0


def _events(
    reader: Reader, tokenizer: Any, cutter: Cutter, geometry: Geometry, voters: Voters, chat: Chat, number: int
) -> list[tuple[Event, torch.Tensor, bool]]:
    """The events of one chat with their voter keys, and whether each is of its first turn, which may state a fact."""
    if tokenizer.chat_template:
        sequences = [render(tokenizer, [{"role": role, "content": text} for role, text in chat.turns])]
    else:
        sequences = [list(tokenizer(text)["input_ids"]) for _, text in chat.turns]
    found = []
    for turn, ids in enumerate(sequences):
        _, keys = reader.read(ids)
        is_first = turn == 0
        for cut in cutter.cut(ids, namespace="calibration", said_at=float(number)):
            at_zero = torch.stack(
                [
                    rotate(keys[layer][cut.start : cut.end], geometry.layers[geometry.slot(layer)].rotary, -cut.start)
                    for layer in voters.layers
                ]
            )
            is_first = is_first and cut.event.role in ("user", "text")
            found.append((cut.event, voter_keys(at_zero, geometry, voters), is_first))
    return found
