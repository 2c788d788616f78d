"""Train one of the two models from scratch on generated chats, for a given time.

    python -m experiments.tiny_hybrid.train --arch qwen3_5 --minutes 18 --out /tmp/tiny_hybrid/qwen3_5

Every minute the weights are written to --out as a checkpoint that Transformers loads, and everything that a resumed
run needs to a file beside it (--out with the ending .state.pt). `log.txt` in --out says how it went.
"""

import argparse
import math
import random
import time
from collections import deque
from pathlib import Path
from queue import Empty
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from experiments.tiny_hybrid.data import BLOCK_TOKENS, LENGTHS, WEIGHTS, Block, Encoder, Workers
from experiments.tiny_hybrid.models import ARCHITECTURES, config_of, raw_config, save
from experiments.tiny_hybrid.modules import Hybrid
from experiments.tiny_hybrid.scoring import Held
from experiments.tiny_hybrid.tokenizer import saved_tokenizer

WARMUP_STEPS = 200
HOLD = 0.55
"""Share of the time at the full learning rate; then it falls in a straight line."""
EASY = 0.06
"""Share of the time on short and simple chats, on which copying is learned soonest."""
WEIGHT_DECAY = 0.05
MAX_USES = 2
RING = 64
EVERY_S = 60.0


class Feed:
    """Batches on the device: new ones as they come, and while none does, an earlier one a second time."""

    def __init__(self, workers: Workers, device: str) -> None:
        self.workers = workers
        self.device = device
        self.once: deque[tuple[Tensor, Tensor]] = deque(maxlen=RING)
        self.num_new = 0
        self.num_again = 0

    def next(self) -> tuple[Tensor, Tensor]:
        """Ids [rows, length] and what each token is."""
        try:
            block = self.workers.queue.get_nowait()
        except Empty:
            if self.once and MAX_USES > 1:
                self.num_again += 1
                return self.once.popleft()
            block = self.workers.queue.get()
        self.num_new += 1
        batch = self._moved(block)
        self.once.append(batch)
        return batch

    def _moved(self, block: Block) -> tuple[Tensor, Tensor]:
        ids, parts = (torch.from_numpy(x.astype("int32")).to(self.device) for x in (block.ids, block.parts))
        return ids.long(), parts.long()


def loss_of(model: Hybrid, ids: Tensor, parts: Tensor, weights: Tensor, dtype: torch.dtype) -> Tensor:
    """Weighted mean of the cross entropy of every token that is not padding."""
    logits = model(ids, dtype)[:, :-1].flatten(0, 1)
    weight = weights[parts[:, 1:]].flatten()
    loss = functional.cross_entropy(logits.float(), ids[:, 1:].flatten(), reduction="none")
    return (loss * weight).sum() / weight.sum()


def optimizer_of(model: Hybrid, rate: float, *, fused: bool) -> torch.optim.Optimizer:
    """AdamW; matrices decay, embeddings, norms and the recurrences' own constants do not."""
    matrices = [p for p in model.parameters() if p.dim() == 2 and p is not model.embedding.weight]
    chosen = {id(p) for p in matrices}
    groups = [
        {"params": matrices, "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in model.parameters() if id(p) not in chosen], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=fused)


def rate_at(share: float, step: int, peak: float) -> float:
    """Learning rate after this share of the time and so many steps."""
    falling = min(1.0, max(0.0, (1.0 - share) / (1.0 - HOLD)))
    return peak * min(1.0, (step + 1) / WARMUP_STEPS) * max(0.01, falling)


def compiled_fault(layer: torch.nn.Module, width: int, device: str, dtype: torch.dtype, num_tokens: int) -> str:
    """Why a compiled layer should not be used; empty if it may be."""
    for length in LENGTHS:
        x = torch.randn(num_tokens // length, length, width, device=device, dtype=dtype, requires_grad=True)
        towards = torch.randn_like(x)
        results = []
        # `forward` itself is not compiled, calling the layer is.
        for form in (layer.forward, layer):
            try:
                y = form(x)
                gradients = torch.autograd.grad((y.float() * towards.float()).sum(), [x, *layer.parameters()])
            # Whatever a compiler raises, training goes on without it.
            except Exception as error:  # noqa: BLE001
                return f"not compiled, {type(error).__name__}: {str(error)[:200]!r}"
            results.append([y.detach().float(), *(gradient.float() for gradient in gradients)])
        for plain, other in zip(*results, strict=True):
            distance = ((plain - other).norm() / plain.norm().clamp(min=1e-6)).item()
            # bf16 rounds at other places in a fused kernel; a wrong kernel is off by its whole size.
            if not distance < 0.1:
                return f"not compiled, {distance:.3f} away at length {length}"
    return ""


class Run:
    """One training run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.out: Path = options.out
        self.state_file = self.out.with_name(self.out.name + ".state.pt")
        self.device: str = options.device
        self.dtype = torch.bfloat16 if self.device == "cuda" else torch.float32
        self.out.mkdir(parents=True, exist_ok=True)
        self.tokenizer = saved_tokenizer(self.out)
        self.raw: dict[str, Any] = raw_config(options.arch, tiny=options.tiny)
        state = torch.load(options.resume, map_location="cpu", weights_only=True) if options.resume else None
        self.elapsed_s, self.step, self.num_tokens = (
            (state["elapsed_s"], state["step"], state["num_tokens"]) if state else (0.0, 0, 0)
        )
        # Before anything is on the device: its threads must not be forked.
        seed = random.Random(f"{options.seed} {self.step}").randrange(10**6)
        bpe = self.tokenizer.backend_tokenizer
        self.workers = Workers(bpe.to_str(), options.workers, seed, tokens=options.block_tokens)
        self.encoder = Encoder(bpe)
        torch.manual_seed(options.seed)
        self.model = Hybrid(config_of(self.raw)).to(self.device)
        self.optimizer = optimizer_of(self.model, options.rate, fused=self.device == "cuda")
        self.weights = torch.tensor(WEIGHTS, device=self.device)
        if state:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])

    def say(self, line: str) -> None:
        """A line of the log."""
        stamped = f"{self.elapsed_s:6.0f} s  step {self.step:6d}  {line}"
        print(stamped, flush=True)
        with (self.out / "log.txt").open("a") as log:
            log.write(stamped + "\n")

    def write(self) -> None:
        """The checkpoint, and what a resumed run needs."""
        save(self.model, self.raw, self.tokenizer, self.out)
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "elapsed_s": self.elapsed_s,
            "step": self.step,
            "num_tokens": self.num_tokens,
        }
        draft = self.state_file.with_suffix(".part")
        torch.save(state, draft)
        draft.rename(self.state_file)

    def compile(self) -> None:
        """Compile the layers, each kind once for all layers of it.

        A kind of which one layer, compiled, fails or differs from itself uncompiled in output or gradients, at any of
        the lengths, runs as it is.
        """
        torch._dynamo.config.recompile_limit = 64
        by_kind: dict[str, list[torch.nn.Module]] = {}
        for layer in self.model.layers:
            by_kind.setdefault(type(getattr(layer, "mixer", layer)).__name__, []).append(layer)
        for kind, layers in by_kind.items():
            began = time.monotonic()
            # What is compiled for the first one serves the others too.
            for layer in layers:
                layer.compile(dynamic=False, backend=self.options.backend)
            fault = compiled_fault(
                layers[0], self.raw["hidden_size"], self.device, self.dtype, self.options.block_tokens
            )
            if fault:
                for layer in layers:
                    layer._compiled_call_impl = None
            self.say(f"{kind}: {fault or 'compiled'}, {time.monotonic() - began:.0f} s")

    def train(self) -> None:
        """Until the time is over."""
        try:
            self._train()
        finally:
            self.workers.stop()

    def _train(self) -> None:
        options = self.options
        held = Held(self.encoder, num=options.eval_num, seed=1, device=self.device)
        num = sum(p.numel() for p in self.model.parameters())
        self.say(f"{options.arch}, {num / 1e6:.2f} M parameters, rows of {LENGTHS}, blocks of {options.block_tokens}")
        if self.device == "cuda":
            torch.set_float32_matmul_precision("high")
        if options.backend:
            self.compile()
        feed = Feed(self.workers, self.device)
        total_s = options.minutes * 60
        began = time.monotonic() - self.elapsed_s
        next_report_s = self.elapsed_s + EVERY_S / 4
        mark = (self.elapsed_s, self.num_tokens)
        losses: list[Tensor] = []
        while (share := self.elapsed_s / total_s) < 1:
            self.workers.easy.value = int(share < EASY)
            ids, parts = feed.next()
            for group in self.optimizer.param_groups:
                group["lr"] = rate_at(share, self.step, options.rate)
            loss = loss_of(self.model, ids, parts, self.weights, self.dtype)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            losses.append(loss.detach())
            self.step += 1
            self.num_tokens += ids.numel()
            if self.step % 8 == 0:
                # Keeps the clock honest: without it the device runs seconds behind.
                losses[-1].item()
            self.elapsed_s = time.monotonic() - began
            if self.elapsed_s >= min(next_report_s, total_s):
                mean = torch.stack(losses).mean().item()
                if not math.isfinite(mean):
                    raise RuntimeError(f"the loss is {mean}; the last checkpoint is from before")
                speed = (self.num_tokens - mark[1]) / (self.elapsed_s - mark[0])
                self._report(held, f"loss {mean:.4f}  {speed / 1e3:.0f}k tokens/s  again {feed.num_again}")
                losses.clear()
                self.elapsed_s = time.monotonic() - began
                mark = (self.elapsed_s, self.num_tokens)
                next_report_s = self.elapsed_s + EVERY_S
        self.write()

    def _report(self, held: Held, line: str) -> None:
        with torch.compiler.set_stance("force_eager"):
            shares = held.right(self.model, self.dtype)
        memory = f"  {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if self.device == "cuda" else ""
        self.say(line + memory + "  " + "  ".join(f"{kind} {share:.3f}" for kind, share in shares.items()))
        self.write()


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", choices=ARCHITECTURES, required=True)
    parser.add_argument("--minutes", type=float, required=True, help="of training in all, resumed runs included")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--resume", type=Path, help="a .state.pt of an earlier run")
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=7, help="processes that write chats")
    parser.add_argument("--block-tokens", type=int, default=BLOCK_TOKENS, help="tokens of a step, padding included")
    parser.add_argument("--eval-num", type=int, default=128, help="held-out questions of each kind")
    parser.add_argument("--backend", default="inductor", help="of torch.compile; empty: run as it is")
    parser.add_argument("--tiny", action="store_true", help="a very small model, to try the script")
    return parser.parse_args()


if __name__ == "__main__":
    Run(arguments()).train()
