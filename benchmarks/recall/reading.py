"""One model with memory, read in batches: events' keys at the voters, questions' cues, greedy replies.

What an event leaves at the voters is computed as an engine would, in a chat of its own; only the batching is the
benchmark's. Layers behind the last voter are not run, and what all chats begin with (a system prompt) is read once.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from benchmarks.recall.chats import Chat, Turns
from benchmarks.recall.volatile import VolatileStore
from v14.config import Switches
from v14.engines.transformers.attention import capture_queries
from v14.events.cut import Cut
from v14.memory import Memory, Session
from v14.recall.cue import build_cue, gather
from v14.reinstate.rotation import rotate
from v14.types import Cue, Event, Trace

SORTED_AT_ONCE = 512
"""Chats sorted by length before they are read, so that those of one batch need little padding."""

BATCH_TOKENS = {"cpu": 2_048, "cuda": 32_768}
"""Tokens read at once, padding included."""

BATCH_ROWS = {"cpu": 16, "cuda": 128}
"""Replies written at once."""

SHARED_TOKENS = 256
"""A beginning of at least this length that prompts of one batch share is read once."""

ANSWER_TOKENS = 24


class _EnoughError(Exception):
    """Raised in front of the first layer that nobody needs."""


class Reader:
    """A V14 directory opened in Transformers. `memory` keeps events and no traces; a session is a namespace of it."""

    def __init__(self, directory: Path, device: str = "cpu") -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        # As `v14 upgrade` reads; a CPU without bfloat16 of its own takes six times as long for it.
        dtype = torch.float32 if device == "cpu" else "auto"
        self.model: Any = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True, dtype=dtype)
        self.model.eval().to(device)
        self.device = device
        self.profile = self.model.v14.profile
        self.model.v14.close()
        self.forget()
        self.max_tokens = int(self.model.config.get_text_config().max_position_embeddings)
        self._layers = list(self.profile.voters.layers)
        self._slots = list(self.profile.voters.slots(self.profile.geometry))
        self._ends = {self.tokenizer.eos_token_id, *self.profile.turns.closing[:1]}

    def forget(self) -> None:
        """Begin with an empty memory: the index of a large store takes gigabytes."""
        switches = replace(Switches.read(), max_buffer_gb=1e6)
        self.memory = Memory(self.profile, switches, VolatileStore(), device=self.device)

    def ids(self, turns: Turns, *, generate: bool = False) -> list[int]:
        """Token ids of a conversation, as a server gets it with `generate`."""
        messages = [{"role": role, "content": text} for role, text in turns]
        encoded = self.tokenizer.apply_chat_template(messages, add_generation_prompt=generate, return_dict=True)
        return list(encoded["input_ids"])

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of token ids."""
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True))

    def said(self, event: Event) -> str:
        """What an event says, without the tokens that open and close its turn."""
        ids = event.token_ids[: event.num_tokens - event.closing_len]
        opening = self.profile.turns.openings.get(event.role, ())
        return self.text(ids[len(opening) :] if ids[: len(opening)] == opening else ids).strip()

    def cuts(self, chat: Chat, ids: Sequence[int], namespace: str) -> list[Cut]:
        """The events of a chat with its token ids, said when the chat was told."""
        chat_id = f"chat at {chat.said_at:.0f}"
        return self.memory.cutter.cut(ids, namespace=namespace, said_at=chat.said_at, chat_id=chat_id)

    @torch.inference_mode()
    def read(self, chats: Sequence[Chat], session: Session) -> Iterator[list[tuple[Event, Trace]]]:
        """The events of chats with their keys at the voters (elsewhere zeros), a batch of chats at a time."""
        for start in range(0, len(chats), SORTED_AT_ONCE):
            some = chats[start : start + SORTED_AT_ONCE]
            sequences = [self.ids(chat.turns) for chat in some]
            cuts = [self.cuts(chat, ids, session.namespace) for chat, ids in zip(some, sequences, strict=True)]
            order = sorted(range(len(some)), key=lambda n: len(sequences[n]))
            for group in grouped(order, [len(ids) for ids in sequences], BATCH_TOKENS[self.device]):
                keys = self._voter_keys([sequences[n] for n in group])
                yield [(cut.event, self._trace(keys[:, row], cut)) for row, n in enumerate(group) for cut in cuts[n]]

    @torch.inference_mode()
    def cue(self, token_ids: Sequence[int], start: int) -> Cue:
        """The cue of a prompt whose new part begins at `start`."""
        voters, geometry = self.profile.voters, self.profile.geometry
        num_queries = min(len(token_ids) - start, self.profile.options.cue_tokens)
        with capture_queries(self._layers, num_queries) as capture:
            cache = self.forward([token_ids])
        read = {layer: cache.layers[layer].keys[0].transpose(0, 1).cpu() for layer in self._layers}
        queries, keys = gather(capture, read, geometry, voters)
        return build_cue(queries, keys, geometry, voters, first_query=len(token_ids) - num_queries, start=start)

    @torch.inference_mode()
    def answers(self, prompts: Sequence[Sequence[int]], max_new_tokens: int = ANSWER_TOKENS) -> list[str]:
        """A greedy reply to each prompt, written in batches with padding in front."""
        written: dict[int, list[int]] = {}
        begins = [tuple(prompt[:SHARED_TOKENS]) if self._shares(prompt) else () for prompt in prompts]
        for begin, count in Counter(begins).items():
            order = sorted((n for n in range(len(prompts)) if begins[n] == begin), key=lambda n: len(prompts[n]))
            alike = bool(begin) and count > 1
            # What they begin with is read once, so that only their number limits a batch.
            lengths = [SHARED_TOKENS if alike else len(prompt) for prompt in prompts]
            for group in grouped(order, lengths, 4 * BATCH_TOKENS[self.device], BATCH_ROWS[self.device]):
                replies = self._write([list(prompts[n]) for n in group], max_new_tokens)
                written |= dict(zip(group, replies, strict=True))
        return [self.text(written[n]).strip() for n in range(len(prompts))]

    def _shares(self, prompt: Sequence[int]) -> bool:
        return len(prompt) > 2 * SHARED_TOKENS and self.profile.geometry.recurrent is None

    def _write(self, prompts: list[list[int]], max_new_tokens: int) -> list[list[int]]:
        cache = DynamicCache(config=self.model.config)
        done = _common(prompts) if all(map(self._shares, prompts)) else 0
        if done < SHARED_TOKENS:
            done = 0
        if done:
            self.model(torch.tensor([prompts[0][:done]], device=self.device), past_key_values=cache, logits_to_keep=1)
            _repeat(cache, len(prompts))
        longest = max(map(len, prompts)) - done
        pad = [longest + done - len(prompt) for prompt in prompts]
        ids = torch.tensor(
            [[0] * n + prompt[done:] for n, prompt in zip(pad, prompts, strict=True)], device=self.device
        )
        mask = torch.ones(len(prompts), done + longest, dtype=torch.int64, device=self.device)
        for row, n in enumerate(pad):
            mask[row, done : done + n] = 0
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, done:]
        replies: list[list[int]] = [[] for _ in prompts]
        ended = [False] * len(prompts)
        for _ in range(max_new_tokens):
            logits = self.model(
                input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, logits_to_keep=1
            ).logits
            ids = logits[:, -1].argmax(-1, keepdim=True)
            for row, token in enumerate(ids[:, 0].tolist()):
                ended[row] = ended[row] or token in self._ends
                if not ended[row]:
                    replies[row].append(token)
            if all(ended):
                break
            mask = torch.cat([mask, mask.new_ones(len(prompts), 1)], dim=-1)
            positions = positions[:, -1:] + 1
        return replies

    def _voter_keys(self, sequences: list[list[int]]) -> torch.Tensor:
        """Keys `[S, B, T, H, D]` at the voters' layers, on the CPU."""
        cache = self.forward(sequences)
        return torch.stack([cache.layers[layer].keys.transpose(1, 2).cpu() for layer in self._layers])

    def forward(self, sequences: Sequence[Sequence[int]]) -> DynamicCache:
        """Read sequences up to the last voter's layer, padded behind their ends, where no token of theirs sees it."""
        cache = DynamicCache(config=self.model.config)
        done = _common(sequences) if len(sequences) > 1 and self.profile.geometry.recurrent is None else 0
        decoder = self.model.get_decoder()
        with _stop_behind(decoder, self._layers[-1]):
            if done:
                decoder(input_ids=torch.tensor([sequences[0][:done]], device=self.device), past_key_values=cache)
        _repeat(cache, len(sequences) if done else 1)
        longest = max(map(len, sequences))
        padded = [[*ids[done:], *[0] * (longest - len(ids))] for ids in sequences]
        with _stop_behind(decoder, self._layers[-1]):
            decoder(input_ids=torch.tensor(padded, device=self.device), past_key_values=cache)
        return cache

    def _trace(self, keys: torch.Tensor, cut: Cut) -> Trace:
        geometry = self.profile.geometry
        own = torch.zeros(len(geometry.layers), cut.event.num_tokens, geometry.num_kv_heads, geometry.head_dim)
        for slot, layer_keys in zip(self._slots, keys[:, cut.start : cut.end], strict=True):
            own[slot] = rotate(layer_keys.float(), geometry.layers[slot].rotary, -cut.start)
        return Trace(keys=own, values=own)


@contextmanager
def _stop_behind(decoder: Any, layer: int) -> Iterator[None]:
    """Run no layer behind `layer`; keys of that layer and those before are in the cache then."""

    def stop(*args: Any) -> None:
        raise _EnoughError

    if layer + 1 == len(decoder.layers):
        yield
        return
    hook = decoder.layers[layer + 1].register_forward_pre_hook(stop)
    try:
        yield
    except _EnoughError:
        pass
    finally:
        hook.remove()


def _repeat(cache: DynamicCache, times: int) -> None:
    """Make of one sequence `times` equal ones, in the layers that have read it."""
    for layer in cache.layers:
        if times > 1 and layer.get_seq_length():
            layer.batch_repeat_interleave(times)


def grouped(
    order: Sequence[int], lengths: Sequence[int], max_tokens: int, max_rows: int = 1 << 30
) -> Iterator[list[int]]:
    """Consecutive runs of `order` whose padded size is at most `max_tokens`, or one alone."""
    group: list[int] = []
    longest = 0
    for number in order:
        longest = max(longest, lengths[number])
        if group and (longest * (len(group) + 1) > max_tokens or len(group) == max_rows):
            yield group
            group, longest = [], lengths[number]
        group.append(number)
    if group:
        yield group


def _common(prompts: Sequence[Sequence[int]]) -> int:
    """How many first tokens all prompts share, leaving each at least one of its own."""
    least = min(map(len, prompts)) - 1
    first = prompts[0]
    return next((n for n in range(least) if any(prompt[n] != first[n] for prompt in prompts)), least)
