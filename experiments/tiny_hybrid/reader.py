"""One small model with memory, asked in every way that the table compares."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.cache_utils import LinearAttentionCacheLayerMixin

from experiments.tiny_hybrid.telling import Case, acknowledgement
from v14.config import Switches
from v14.engines.transformers.cache import MemoryCache
from v14.engines.transformers.reading import forward, new_cache, read_behind, read_with_memory
from v14.engram import compress
from v14.memory import Memory, Session
from v14.reinstate.span import build_span
from v14.types import MAX_EVENT_TOKENS, Event, Trace

RANKS = (1, 2, 4, 8, MAX_EVENT_TOKENS)
"""Ranks of the engrams; the last is full."""

Parts = Literal["kv", "engram", "both"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Told:
    """A case whose statements were told, each in a chat of its own: their events in order, their traces by rank."""

    case: Case
    session: Session
    events: tuple[Event, ...]
    traces: Mapping[int, tuple[Trace, ...]]


class Reader:
    """A V14 directory opened in Transformers; its store lies in `home`."""

    def __init__(self, directory: Path, home: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self.model: Any = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True, dtype="auto").eval()
        profile = self.model.v14.profile
        self.rank = profile.options.engram_rank
        # Stored at full rank, so that every rank can be cut from the same traces.
        options = profile.options.model_copy(update={"engram_rank": RANKS[-1]})
        self.model.v14.close()
        self.model.v14 = Memory.open(
            replace(profile, options=options), replace(Switches.read(), memory_home=home, max_buffer_gb=0.1)
        )
        self._namespaces = itertools.count()

    @property
    def memory(self) -> Memory:
        """The model's memory."""
        memory: Memory = self.model.v14
        return memory

    @torch.no_grad()
    def tell(self, case: Case) -> Told:
        """Read every statement in a chat of its own; nothing else is in that namespace."""
        namespace = f"case {next(self._namespaces)}"
        session = self.memory.session(namespace)
        for statement in (*case.others, *case.statements):
            ids, cache = self._ids([("user", statement)]), new_cache(self.model, session, record=True)
            forward(self.model, cache, ids)
            session.observe(ids, range(len(ids)), cache.read, read_engram=cache.read_engram)
        others = {e.id for s in case.others for e in self._cut(session, s)}
        events = tuple(e for e in self.memory.store.events(namespace) if e.id not in others)
        traces = [self.memory.store.trace(namespace, event.id) for event in events]
        return Told(case=case, session=session, events=events, traces=by_rank(traces))

    @torch.no_grad()
    def same_chat(self, told: Told) -> bool:
        """The ceiling: everything said in the chat that the question is asked in."""
        turns = [
            (role, text)
            for s in told.case.statements
            for role, text in (("user", s), ("assistant", acknowledgement(s)))
        ]
        ids = self._ids([*turns, ("user", told.case.question.text)])
        return self._is_right(told, new_cache(self.model, told.session), ids)

    @torch.no_grad()
    def reread(self, told: Told) -> bool:
        """The events' tokens read again in front of the question."""
        ids = [token for event in told.events for token in event.token_ids]
        return self._is_right(told, new_cache(self.model, told.session), [*ids, *self._question(told)])

    @torch.no_grad()
    def placed(self, told: Told, parts: Parts, ranks: Sequence[int]) -> list[bool]:
        """The events' traces in front of the question, engrams cut to each of `ranks`; 0 leaves recurrent states alone,
        and cannot be asked for beside others."""
        readings = []
        for rank in ranks:
            span = build_span(told.events, told.traces[rank], self.memory.profile.geometry, 0)
            readings.append(read_behind(self.model, told.session, self._question(told), span, parts))
        cache = side_by_side([reading.cache for reading in readings])
        return self._are_right(told, cache, readings[0].sequence.token_ids, len(ranks))

    @torch.no_grad()
    def recalled(self, told: Told) -> tuple[bool, bool]:
        """Whether the memory itself, with its own recall, answers right; and whether it recalled every event needed."""
        reading = read_with_memory(self.model, told.session, self._question(told))
        found = {event.id for event in reading.plan.events} >= {event.id for event in told.events}
        return self._is_right(told, reading.cache, reading.sequence.token_ids), found

    def _is_right(self, told: Told, cache: Any, ids: Sequence[int]) -> bool:
        return self._are_right(told, cache, ids, 1)[0]

    def _are_right(self, told: Told, cache: Any, ids: Sequence[int], num: int) -> list[bool]:
        """Whether greedy decoding writes the reply, for each of `num` sequences side by side in the cache: each of its
        tokens is the first choice behind those before it."""
        reply = self.tokenizer.encode(told.case.question.reply + "<|im_end|>", add_special_tokens=False)
        done = cache.get_seq_length()
        new = torch.tensor([[*ids[done:], *reply]]).expand(num, -1)
        positions = torch.arange(done, done + new.shape[1])[None].expand(num, -1)
        logits = self.model(
            input_ids=new, position_ids=positions, past_key_values=cache, logits_to_keep=len(reply) + 1
        ).logits
        return [row.tolist() == reply for row in logits[:, :-1].argmax(-1)]

    def _question(self, told: Told) -> list[int]:
        return self._ids([("user", told.case.question.text)])

    def _ids(self, turns: Sequence[tuple[str, str]]) -> list[int]:
        messages = [{"role": role, "content": content} for role, content in turns]
        encoded = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
        return list(encoded["input_ids"])

    def _cut(self, session: Session, statement: str) -> list[Event]:
        ids = self._ids([("user", statement)])
        return [cut.event for cut in self.memory.cutter.cut(ids, namespace=session.namespace, said_at=0.0, chat_id="")]


def side_by_side(caches: Sequence[MemoryCache]) -> MemoryCache:
    """One cache of several sequences, of caches that hold equally much of one each."""
    first = caches[0]
    for layer, *others in zip(*(cache.layers for cache in caches), strict=True):
        if isinstance(layer, LinearAttentionCacheLayerMixin):
            for states in ("conv_states", "recurrent_states"):
                parts = [getattr(each, states)[0] for each in (layer, *others)]
                if parts[0] is not None:
                    getattr(layer, states)[0] = torch.cat(parts)
        elif layer.is_initialized:
            layer.keys = torch.cat([each.keys for each in (layer, *others)])
            layer.values = torch.cat([each.values for each in (layer, *others)])
    return first


def by_rank(traces: Sequence[Trace]) -> dict[int, tuple[Trace, ...]]:
    """Full-rank traces with their engrams at each of `RANKS`, and without them at rank 0."""
    cut = {0: tuple(replace(trace, engram=None) for trace in traces)}
    for rank in sorted(RANKS, reverse=True):
        # The best of a rank is a part of the best of any higher one, and that is cheaper to take apart.
        traces = cut[rank] = tuple(
            replace(trace, engram=trace.engram and compress(trace.engram, rank)) for trace in traces
        )
    return cut
