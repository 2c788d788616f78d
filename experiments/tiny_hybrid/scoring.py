"""How many questions of each kind a model in training answers, in one forward pass per kind."""

import random

import torch
from torch import Tensor

from experiments.tiny_hybrid.chats import question_chat
from experiments.tiny_hybrid.data import Encoder
from experiments.tiny_hybrid.modules import Hybrid
from experiments.tiny_hybrid.stories import KINDS

ROUND = 64


class Held:
    """Held-out chats of every kind with their right replies."""

    def __init__(self, encoder: Encoder, *, num: int, seed: int, device: str) -> None:
        self.sets: dict[str, tuple[Tensor, Tensor]] = {}
        for kind in KINDS:
            draw = random.Random(f"{kind} {seed}")
            rows, starts = [], []
            for _ in range(num):
                turns, question = question_chat(draw, kind)
                prompt = encoder.prompt(turns)
                encoder.texts([question.reply])
                rows.append([*prompt, *encoder.cache[question.reply], encoder.end])
                starts.append(len(prompt))
            length = -(-max(map(len, rows)) // ROUND) * ROUND
            ids = torch.zeros(num, length, dtype=torch.long)
            in_reply = torch.zeros(num, length, dtype=torch.bool)
            for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
                ids[number, : len(row)] = torch.tensor(row)
                in_reply[number, start : len(row)] = True
            self.sets[kind] = ids.to(device), in_reply.to(device)

    @torch.no_grad()
    def right(self, model: Hybrid, dtype: torch.dtype) -> dict[str, float]:
        """Share per kind of replies whose every token is the likeliest one behind the right beginning.

        That is exactly whether the greedy reply is the right one, token for token.
        """
        shares = {}
        for kind, (ids, in_reply) in self.sets.items():
            likeliest = model(ids, dtype).argmax(-1)[:, :-1]
            wrong = (likeliest != ids[:, 1:]) & in_reply[:, 1:]
            shares[kind] = 1.0 - wrong.any(1).float().mean().item()
        return shares
