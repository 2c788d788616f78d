"""Makes the file of real voter keys and questions' cues that `benchmarks.gpu.votes` measures with.

    python -m benchmarks.gpu.voter_keys V14-DIRECTORY OUT.safetensors [--events 250] [--questions 40] [--seed 14]

Chats of the recall benchmark's English world are read by the directory's model on the CPU; seeds 0, 1 and 2 are those
that reports use, so take another. Keys are in fp16 (up to a factor of two in the last place, what bf16 models give).
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from benchmarks.recall.chats import Chat, weave
from benchmarks.recall.english.world import English
from benchmarks.recall.reading import Reader
from v14.geometry import AttentionLayer, Geometry
from v14.profile import SKETCHED
from v14.recall.sketch import Sketch, fit
from v14.recall.voters import Voters
from v14.recall.votes import scalings, voter_keys
from v14.types import Cue


@dataclass(frozen=True, kw_only=True, eq=False)
class Keys:
    """Voter keys `[U, tokens, D]` of events back to back (`lengths`, `[N]`), cues of questions, and what votes need.

    `rows` and `scaling` are per voter, as in `v14.recall.votes`.
    """

    name: str
    keys: torch.Tensor
    lengths: torch.Tensor
    cues: Sequence[Cue]
    null: Cue
    rows: Sequence[int]
    scaling: Sequence[float]
    weights: Sequence[float]
    calibration: str
    spread: Sequence[float]
    sketch: Sketch

    def save(self, path: Path) -> None:
        """Write all of it to one file."""
        about = {name: getattr(self, name) for name in ("name", "rows", "scaling", "weights", "calibration", "spread")}
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(
            {
                "keys": self.keys.half().contiguous(),
                "lengths": self.lengths,
                "queries": torch.cat([cue.queries for cue in self.cues], 1).half(),
                "context_lse": torch.cat([cue.context_lse for cue in self.cues], 1),
                "num_queries": torch.tensor([cue.queries.shape[1] for cue in self.cues]),
                "null_queries": self.null.queries.half(),
                "null_context_lse": self.null.context_lse.contiguous(),
                **{f"sketch_{name}": getattr(self.sketch, name) for name in SKETCHED},
            },
            path,
            {"about": json.dumps(about)},
        )

    def voters(self) -> tuple[Geometry, Voters]:
        """Voters with these rows and scalings, in a model of as many layers as there are rows, without rotation."""
        scaling = dict(zip(self.rows, self.scaling, strict=True))
        seen: Counter[int] = Counter()
        heads = []
        for row in self.rows:
            heads.append((row, seen[row]))
            seen[row] += 1
        geometry = Geometry(
            num_heads=max(seen.values()),
            num_kv_heads=1,
            head_dim=self.keys.shape[2],
            layers=tuple(AttentionLayer(index=row, rotary=None, scaling=scaling[row]) for row in sorted(scaling)),
        )
        voters = Voters(
            heads=tuple(heads), weights=tuple(self.weights), calibration=self.calibration, null=self.null,
            spread=tuple(self.spread), sketch=self.sketch,
        )  # fmt: skip
        return geometry, voters

    @classmethod
    def load(cls, path: Path) -> "Keys":
        """What `save` wrote; tensors but the keys in fp32."""
        with safe_open(path, "pt") as file:
            about = json.loads(file.metadata()["about"])
            read = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
        parts = read["num_queries"].tolist()
        queries, context = read["queries"].float().split(parts, 1), read["context_lse"].split(parts, 1)
        return cls(
            keys=read["keys"],
            lengths=read["lengths"],
            cues=[Cue(queries=q, context_lse=c) for q, c in zip(queries, context, strict=True)],
            null=Cue(queries=read["null_queries"].float(), context_lse=read["null_context_lse"]),
            sketch=Sketch(**{name: read[f"sketch_{name}"] for name in SKETCHED}),
            **about,
        )


def read(directory: Path, seed: int, num_events: int, num_questions: int) -> Keys:
    """Read chats until there are `num_events`, and ask about some of them."""
    reader, world = Reader(directory), English(seed)
    voters, geometry = reader.profile.voters, reader.profile.geometry
    wanted = [row for row in world.rows if "line in" not in row]
    cases = [case for row in wanted for case in world.cases(row, -(-num_questions // len(wanted)))][:num_questions]
    others: list[Chat] = []
    distractors = world.distractors()
    num_own = sum(len(chat.turns) for case in cases for chat in case.chats)
    while sum(len(chat.turns) for chat in others) < num_events - num_own:
        others.append(next(distractors))
    woven = weave(random.Random(f"weave {seed}"), cases, others)
    slots = list(voters.slots(geometry))
    parts: dict[str, torch.Tensor] = {}
    for traced in reader.read(woven.chats, reader.memory.session("keys")):
        for event, trace in traced:
            parts.setdefault(event.id, voter_keys(trace.keys[slots], geometry, voters).half())
        print(f"{len(parts)} events", end="\r", flush=True)
    cues = []
    for case in cases:
        ids = reader.ids((("user", case.question),), generate=True)
        cues.append(reader.cue(ids, reader.memory.session("keys").layout(ids).new_start))
    return keys_of(directory.name, list(parts.values())[:num_events], cues, voters, scalings(geometry, voters),
                   voters.key_rows(geometry).tolist())  # fmt: skip


def keys_of(
    name: str,
    parts: Sequence[torch.Tensor],
    cues: Sequence[Cue],
    voters: Voters,
    scaling: Sequence[float],
    rows: Sequence[int],
) -> Keys:
    """Keys `[U, T, D]` of events, packed."""
    return Keys(
        name=name,
        keys=torch.cat(list(parts), 1),
        lengths=torch.tensor([part.shape[1] for part in parts]),
        cues=cues,
        null=voters.null,
        rows=list(rows),
        scaling=list(scaling),
        weights=list(voters.weights),
        calibration=voters.calibration,
        spread=voters.spread,
        sketch=voters.sketch or fit(torch.cat(list(parts), 1).float(), cues, rows),
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--events", type=int, default=250)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--seed", type=int, default=14)
    arguments = parser.parse_args()
    keys = read(arguments.directory, arguments.seed, arguments.events, arguments.questions)
    keys.save(arguments.out)
    size = arguments.out.stat().st_size / 1e6
    print(f"{len(keys.lengths)} events, {keys.lengths.sum()} tokens, {len(keys.cues)} questions, {size:.1f} MB")


if __name__ == "__main__":
    main()
