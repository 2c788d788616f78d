"""What a V14 directory says about its model: the one file that both engines and the upgrade share.

config.json            the checkpoint's own, with the V14 architecture name, `auto_map` and the options (key `v14`)
v14/profile.json       format version, base architecture, weights id, geometry, turn format, voters, measurements
v14/voters.safetensors the null cue (queries, context_lse); which tokens begin words (word_kinds), and what they say
                       (pieces, one behind the other, and piece_lengths); what keys are sketched with (sketch_keys,
                       sketch_queries, sketch_centre)
configuration_v14.py, modeling_v14.py   remote code for Transformers
*.safetensors, tokenizer files          links to, or copies of, the checkpoint's
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from v14.config import CONFIG_KEY, Options
from v14.errors import DirectoryError, OptionError
from v14.events.asking import Asking
from v14.events.cut import Cutter
from v14.events.phrases import Phrases
from v14.events.turns import TurnFormat
from v14.events.words import Vocabulary
from v14.geometry import Geometry
from v14.recall.doubt import Doubt
from v14.recall.sketch import Sketch
from v14.recall.voters import Voters
from v14.recall.votes import CALIBRATIONS
from v14.types import Cue

PROFILE_VERSION = 3

SKETCHED = ("keys", "queries", "centre")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Everything the memory knows about one set of weights.

    `weights_id` names them (`sha256:…`, see `v14.upgrade.weights`); `measured` keeps the calibration's figures
    for people to read.
    """

    base_architecture: str
    weights_id: str
    geometry: Geometry
    turns: TurnFormat
    sentence_ends: frozenset[int]
    question_ends: frozenset[int] = frozenset()
    change_runs: tuple[tuple[int, ...], ...] = ()
    history_runs: tuple[tuple[int, ...], ...] = ()
    voters: Voters
    options: Options
    doubt: Doubt | None = None
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    measured: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cutter(self) -> Cutter:
        """Cuts what this model reads into events."""
        return Cutter(turns=self.turns, sentence_ends=self.sentence_ends, event_tokens=self.options.event_tokens)

    @property
    def asking(self) -> Asking:
        """What tells events that only ask."""
        return Asking(turns=self.turns, sentence_ends=self.sentence_ends, question_ends=self.question_ends)

    @property
    def says_change(self) -> Phrases:
        """Finds what says that something changed."""
        return Phrases(self.change_runs)

    @property
    def asks_history(self) -> Phrases:
        """Finds what asks for what was before."""
        return Phrases(self.history_runs)

    def save(self, directory: Path) -> None:
        """Write `v14/profile.json` and `v14/voters.safetensors` (the options go into `config.json`)."""
        room = directory / "v14"
        room.mkdir(exist_ok=True)
        null, sketch = self.voters.null, self.voters.sketch
        save_file(
            {
                **({} if sketch is None else {f"sketch_{name}": getattr(sketch, name) for name in SKETCHED}),
                "queries": null.queries.contiguous(),
                "context_lse": null.context_lse.contiguous(),
                "word_kinds": _bytes(self.vocabulary.kinds),
                "pieces": _bytes(b"".join(self.vocabulary.pieces)),
                "piece_lengths": torch.tensor(list(map(len, self.vocabulary.pieces)), dtype=torch.int32),
            },
            room / "voters.safetensors",
        )
        data = {
            "version": PROFILE_VERSION,
            "base_architecture": self.base_architecture,
            "weights_id": self.weights_id,
            "geometry": self.geometry.to_json(),
            "turns": self.turns.to_json(),
            "sentence_ends": sorted(self.sentence_ends),
            "question_ends": sorted(self.question_ends),
            "change_runs": list(map(list, self.change_runs)),
            "history_runs": list(map(list, self.history_runs)),
            "voters": {
                "heads": [list(head) for head in self.voters.heads],
                "weights": list(self.voters.weights),
                "calibration": self.voters.calibration,
                "sinks": list(self.voters.sinks),
                "spread": list(self.voters.spread),
            },
            "doubt": None if self.doubt is None else asdict(self.doubt),
            "measured": dict(self.measured),
        }
        (room / "profile.json").write_text(json.dumps(data, indent=1) + "\n")

    @classmethod
    def load(cls, directory: Path) -> "Profile":
        """Read a V14 directory. Raises `DirectoryError` or `OptionError`, naming the file."""
        try:
            config = json.loads((directory / "config.json").read_text())
            data = json.loads((directory / "v14/profile.json").read_text())
            tensors = load_file(directory / "v14/voters.safetensors")
        except (OSError, ValueError, RecursionError, SafetensorError) as error:
            raise DirectoryError(
                f"{directory} is not a complete V14 directory ({error}); make one with `v14 upgrade`"
            ) from error
        version = data.get("version") if isinstance(data, dict) else None
        if version != PROFILE_VERSION or not isinstance(config, dict) or not isinstance(config.get(CONFIG_KEY), dict):
            raise DirectoryError(
                f"{directory}: profile version {version!r}, this package reads {PROFILE_VERSION}; "
                "run `v14 upgrade` again"
            )
        options = Options.parse(config[CONFIG_KEY], str(directory / "config.json"))
        try:
            found = cls._of(data, tensors, options)
        except (ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError, OverflowError) as error:
            raise DirectoryError(
                f"{directory / 'v14'} does not say what its model is ({type(error).__name__}: {error}); "
                "run `v14 upgrade` again"
            ) from error
        if not found.geometry.placeable and options.reinstate != "reread":
            raise OptionError(
                f"{directory / 'config.json'}, key {CONFIG_KEY!r}: reinstate {options.reinstate!r} cannot work: "
                f"events of {found.base_architecture} can only be read again; write 'reread'"
            )
        return found

    @classmethod
    def _of(cls, data: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], options: Options) -> "Profile":
        """The profile that two files say. Raises `ValueError` and its like for what no upgrade writes."""
        voters = Voters(
            heads=tuple((int(layer), int(head)) for layer, head in data["voters"]["heads"]),
            weights=tuple(map(float, data["voters"]["weights"])),
            calibration=data["voters"]["calibration"],
            null=Cue(queries=tensors["queries"], context_lse=tensors["context_lse"]),
            sinks=tuple(map(float, data["voters"].get("sinks", ()))),
            spread=tuple(map(float, data["voters"].get("spread", ()))),
            sketch=_sketch(tensors),
        )
        geometry = Geometry.from_json(data["geometry"])
        if not voters.heads or not len(voters.heads) == len(voters.weights) == len(voters.null.queries):
            raise ValueError(
                f"{len(voters.heads)} voters, {len(voters.weights)} weights, {len(voters.null.queries)} cues"
            )
        if voters.calibration not in CALIBRATIONS or not isinstance(data["weights_id"], str):
            raise ValueError(f"calibration {voters.calibration!r}, weights {data['weights_id']!r}")
        if len(voters.spread) not in (0, len(voters.heads)):
            raise ValueError(f"{len(voters.heads)} voters, a spread of {len(voters.spread)}")
        voters.slots(geometry)
        voters.key_rows(geometry)
        expected = len(voters.key_heads(geometry)), geometry.head_dim
        if voters.sketch is not None and voters.sketch.centre.shape != expected:
            raise ValueError(f"a sketch for {tuple(voters.sketch.centre.shape)} rows and dimensions, not {expected}")
        return cls(
            base_architecture=data["base_architecture"],
            weights_id=data["weights_id"],
            geometry=geometry,
            turns=TurnFormat.from_json(data["turns"]),
            sentence_ends=frozenset(map(int, data["sentence_ends"])),
            # Directories made before recall knew questions and corrections have none.
            question_ends=frozenset(map(int, data.get("question_ends", ()))),
            change_runs=tuple(tuple(map(int, run)) for run in data.get("change_runs", ())),
            history_runs=tuple(tuple(map(int, run)) for run in data.get("history_runs", ())),
            voters=voters,
            options=options,
            doubt=None if data["doubt"] is None else _doubt(data["doubt"]),
            vocabulary=_vocabulary(tensors),
            measured=data["measured"],
        )


def _doubt(data: Mapping[str, Any]) -> Doubt:
    """Directories made before the end of a question counted have no `open` and no `late`."""
    late = tuple(map(float, data.get("late", ())))
    return Doubt(**{name: float(value) for name, value in data.items() if name != "late"}, late=late)


def _bytes(data: bytes) -> torch.Tensor:
    return torch.tensor(list(data), dtype=torch.uint8)


def _vocabulary(tensors: Mapping[str, torch.Tensor]) -> Vocabulary:
    """Raises `ValueError` where the pieces are not as long as they say."""
    kinds, pieces = (bytes(tensors[name].tolist()) for name in ("word_kinds", "pieces"))
    lengths = tensors["piece_lengths"].tolist()
    ends = list(accumulate(lengths, initial=0))
    if ends[-1] != len(pieces) or min(lengths, default=0) < 0 or len(lengths) != len(kinds):
        raise ValueError(f"{len(lengths)} pieces of {ends[-1]} bytes for {len(kinds)} tokens and {len(pieces)} bytes")
    return Vocabulary(kinds=kinds, pieces=tuple(pieces[one:other] for one, other in pairwise(ends)))


def _sketch(tensors: Mapping[str, torch.Tensor]) -> Sketch | None:
    """What sketches are made with; directories made before there were any have none."""
    if "sketch_keys" not in tensors:
        return None
    return Sketch(**{name: tensors[f"sketch_{name}"] for name in SKETCHED})
