"""What one request did to the recurrent states, kept while it is read.

    heads   of a request that looks for what to recall: the states in front of its new part, where they are not in the
            prefix cache yet
    events  a request that is stored, where engrams are kept: what each new event does, at the options' rank

Nothing is computed for tokens that nobody asks for, and nothing of the layers' own work changes. A piece that was not
read in one go from its start (its tokens came from the prefix cache) is not known in the end.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import torch

from v14.engines.sglang.passes import Pass
from v14.engines.sglang.recurrent import LayerRead, StatePool
from v14.engines.sglang.transfer import to_device
from v14.engram import advance, compose, compress, stack
from v14.engram.factors import conv_tail
from v14.types import MAX_EVENT_TOKENS, Engram

MAX_RUNS = 64
"""Runs that a head is reached in: the effects of all stand beside each other on the device, layer by layer."""

Run = tuple[int, int]
"""Start and end of a run of tokens, as positions in a request's sequence."""


@dataclass(kw_only=True)
class Recording:
    """`heads` are the positions whose states are wanted, `events` are the runs whose engrams are."""

    pool: StatePool
    rank: int
    heads: tuple[int, ...] = ()
    events: tuple[Run, ...] = ()
    _heads: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    _engrams: dict[tuple[Run, int], tuple[int, Engram]] = field(default_factory=dict)

    def runs(self, part: Pass) -> list[Run]:
        """The runs to look at in a pass, ascending: events, and what stands in front of a head in up to `MAX_RUNS`."""
        wanted = [(max(a, part.start), min(b, part.end)) for a, b in self.events]
        heads = self._passed(part)
        if heads:
            step = max(MAX_EVENT_TOKENS, -(-(max(heads) - part.start) // MAX_RUNS))
            wanted += pairwise(sorted({*range(part.start, max(heads), step), *heads}))
        return sorted({(a, b) for a, b in wanted if a < b})

    def _passed(self, part: Pass) -> list[int]:
        return [head for head in self.heads if part.start < head <= part.end]

    def note(self, layer: int, read: LayerRead, part: Pass, slot: torch.Tensor, runs: list[Run]) -> None:
        """Take up what the recurrent layer with place `layer` in the stack is about to read.

        `slot` `[1]` is where the request's states stand, on the device.
        """
        before = self.pool.conv[layer, slot][0]
        state = self.pool.temporal[layer, slot][0].float()
        if part.start == 0:
            before, state = torch.zeros_like(before), torch.zeros_like(state)
        effects = self._effects(read, part, runs, before)
        for head in self._passed(part):
            steps = [effects[run] for run in runs if run[1] <= head]
            states, inputs = advance(state[None], before[None], steps)
            self._heads[head, layer] = states[0], inputs[0]
        for event in self.events:
            run = max(event[0], part.start), min(event[1], part.end)
            if run in effects:
                self._add(event, layer, run, effects[run])

    def _effects(self, read: LayerRead, part: Pass, runs: list[Run], before: torch.Tensor) -> dict[Run, Engram]:
        """One layer's engram of every run, at full rank."""
        reach = self.pool.stack.conv_width - 1
        first, last = runs[0][0], runs[-1][1]
        begin = max(part.start, first - reach)
        seen = read.inputs(part.rows(begin, last))
        missing = reach - (first - begin)
        if missing:
            # In front of this pass stands what the slot remembers of the passes before.
            seen = torch.cat([before.mT[reach - missing :].to(seen.dtype), seen])
        edges = sorted({edge for run in runs for edge in run})
        bounds = to_device(torch.tensor([edge - first for edge in edges], dtype=torch.int32), seen.device)
        events = read.events(part.rows(first, last), seen, bounds)
        found = {}
        for a, b in runs:
            tail = conv_tail(seen[a - first + reach : b - first + reach], reach + 1)
            found[a, b] = stack([] if events is None else [events.factors(edges.index(a))], [tail])
        return found

    def _add(self, event: Run, layer: int, run: Run, effect: Engram) -> None:
        effect = compress(effect, self.rank)
        if run[0] != event[0]:
            end, so_far = self._engrams.pop((event, layer), (-1, effect))
            if end != run[0]:
                return
            effect = compress(compose(so_far, effect, conv_width=self.pool.stack.conv_width), self.rank)
        self._engrams[event, layer] = run[1], effect

    def forget_heads(self) -> None:
        """Nothing is recalled: the states at the heads are of no use any more."""
        self.heads = ()
        self._heads.clear()

    def states_at(self, head: int) -> tuple[torch.Tensor, torch.Tensor] | None:
        """States `[R, N, P, K]` fp32 and convolution inputs `[R, C, W - 1]` at a head; None if it was not passed."""
        layers = [self._heads.get((head, layer)) for layer in range(len(self.pool.stack.indices))]
        known = [layer for layer in layers if layer is not None]
        if len(known) < len(layers):
            return None
        states, inputs = zip(*known, strict=True)
        return torch.stack(states), torch.stack(inputs)

    def engram(self, start: int, end: int) -> Engram | None:
        """The engram of an event, on the CPU; None if it was not read whole."""
        parts = [self._engrams.get(((start, end), layer)) for layer in range(len(self.pool.stack.indices))]
        known = [part[1] for part in parts if part is not None and part[0] == end]
        if len(known) < len(parts):
            return None
        names = known[0].tensors()
        return Engram(**{name: torch.cat([layer.tensors()[name] for layer in known]).cpu() for name in names})


Noting = tuple[Recording, Pass, torch.Tensor, list[Run]]
"""What is to be noted of one request in one forward pass, and the slot of its states."""
