"""Chats as rows of token ids, made by worker processes in blocks of one length each."""

import multiprocessing as mp
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from experiments.tiny_hybrid.chats import TALK, Turn, chat
from experiments.tiny_hybrid.tokenizer import TURN_END, TURN_START

LENGTHS = (192, 384, 704)
"""Row lengths: a chat stands in the shortest row that holds it."""
BLOCK_TOKENS = 65_536
PAD, CONTEXT, TALK_REPLY, ANSWER = range(4)
"""What a token is, which decides how much its loss weighs."""
WEIGHTS = (0.0, 0.1, 0.2, 1.0)
CACHE_SIZE = 50_000


@dataclass(frozen=True, kw_only=True)
class Block:
    """Token ids [rows, length] as uint16, and what each token is [rows, length] as uint8."""

    ids: np.ndarray[Any, np.dtype[np.uint16]]
    parts: np.ndarray[Any, np.dtype[np.uint8]]


class Encoder:
    """Turns into token ids as the chat template makes them; texts that come again are encoded once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        [start], [end] = ([tokenizer.token_to_id(token)] for token in (TURN_START, TURN_END))
        newline = self._plain("\n")
        self.headers = {role: [start, *self._plain(role + "\n")] for role in ("system", "user", "assistant")}
        self.headers[""] = []
        self.end = end
        self.closing = [end, *newline]
        self.cache: dict[str, list[int]] = {}

    def _plain(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def texts(self, texts: Sequence[str]) -> None:
        """Encode into the cache what is not there yet."""
        new = [text for text in texts if text not in self.cache]
        if len(self.cache) > CACHE_SIZE:
            self.cache = {text: self.cache[text] for text in texts if text in self.cache}
        for text, coded in zip(new, self.tokenizer.encode_batch_fast(new, add_special_tokens=False), strict=True):
            self.cache[text] = coded.ids

    def chat(self, turns: Sequence[Turn]) -> tuple[list[int], list[int]]:
        """Ids of a chat and what each is. Its texts must be in the cache."""
        ids: list[int] = []
        parts: list[int] = []
        for turn in turns:
            header, text = self.headers[turn.role], self.cache[turn.text]
            part = CONTEXT if not turn.kind else TALK_REPLY if turn.kind == TALK else ANSWER
            ids += header
            ids += text
            ids += self.closing
            parts += [CONTEXT] * len(header)
            parts += [part] * (len(text) + 1)
            parts += [CONTEXT] * (len(self.closing) - 1)
        return ids, parts

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """Ids of a chat up to the beginning of the next reply."""
        self.texts([turn.text for turn in turns])
        return self.chat(turns)[0] + self.headers["assistant"]


def blocks(
    encoder: Encoder, draw: random.Random, easy: Any, *, lengths: Sequence[int] = LENGTHS, tokens: int = BLOCK_TOKENS
) -> Iterator[Block]:
    """Blocks without end. While `easy.value` is not 0 the chats are short and simple."""
    waiting: dict[int, list[tuple[list[int], list[int]]]] = {length: [] for length in lengths}
    while True:
        simple = bool(easy.value)
        most = 4 if simple else 8
        batch = [chat(draw, num_stories=draw.randrange(1, most), easy=simple) for _ in range(64)]
        encoder.texts([turn.text for turns in batch for turn in turns])
        for turns in batch:
            ids, parts = encoder.chat(turns)
            length = next((length for length in lengths if len(ids) <= length), lengths[-1])
            rows = waiting[length]
            rows.append((ids[:length], parts[:length]))
            if len(rows) == tokens // length:
                waiting[length] = []
                yield _block(rows, length)


def _block(rows: list[tuple[list[int], list[int]]], length: int) -> Block:
    ids = np.zeros((len(rows), length), np.uint16)
    parts = np.zeros((len(rows), length), np.uint8)
    for number, (row, kinds) in enumerate(rows):
        ids[number, : len(row)] = row
        parts[number, : len(row)] = kinds
    return Block(ids=ids, parts=parts)


def _work(tokenizer: str, seed: int, easy: Any, queue: "mp.Queue[Block]", lengths: Sequence[int], tokens: int) -> None:
    encoder = Encoder(Tokenizer.from_str(tokenizer))
    for block in blocks(encoder, random.Random(seed), easy, lengths=lengths, tokens=tokens):
        queue.put(block)


class Workers:
    """Processes that fill a queue with blocks; `easy` is shared with them. They end with the process that made them."""

    def __init__(
        self, tokenizer: str, num: int, seed: int, *, lengths: Sequence[int] = LENGTHS, tokens: int = BLOCK_TOKENS
    ) -> None:
        context = mp.get_context("fork")
        self.queue: mp.Queue[Block] = context.Queue(16)
        self.easy = context.Value("b", 1)
        self.processes = [
            context.Process(
                target=_work, args=(tokenizer, seed * 1000 + n, self.easy, self.queue, lengths, tokens), daemon=True
            )
            for n in range(num)
        ]
        for process in self.processes:
            process.start()

    def stop(self) -> None:
        """End the processes."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join()
        self.queue.close()
        self.queue.cancel_join_thread()
