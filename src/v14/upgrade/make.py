"""`upgrade`: from a checkpoint directory to a V14 directory."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from v14.config import CONFIG_KEY, Options
from v14.errors import UnsupportedModelError, UpgradeError, V14Error
from v14.events.asking import Asking
from v14.events.cut import Cutter
from v14.geometry import Geometry
from v14.models import adapter_for
from v14.models.base import text_config
from v14.profile import Profile
from v14.upgrade.calibration import build, own
from v14.upgrade.calibration.doubts import doubts
from v14.upgrade.choose import choose
from v14.upgrade.directory import Link, whole_or_nothing, write
from v14.upgrade.installed import check_transformers, sglang_line
from v14.upgrade.measure import LAYER_SHARE, measure, measure_doubts
from v14.upgrade.phrases import phrase_runs
from v14.upgrade.reading import Reader, calm_threads, quiet_transformers
from v14.upgrade.report import Report, separation_lines
from v14.upgrade.sentences import question_ends, sentence_ends, vocabulary
from v14.upgrade.sureness import MAX_EVENTS, fit
from v14.upgrade.turns import turn_format
from v14.upgrade.weights import weights_id

SEED = 14

UNPACKED = ("mxfp4",)
"""Quantisations that Transformers computes with on a CPU, unpacked (GPT-OSS is released in no other form)."""

REREAD_LINE = (
    "events of this model are read again (reinstate: reread): what its layers keep beside keys, values and states "
    "cannot be placed"
)
HYBRID_LINE = (
    "events of this model are read again (reinstate: reread), which small hybrid models answered corrected facts best "
    "with; kv and auto can be set in config.json"
)


def upgrade(
    src: Path,
    out: Path,
    *,
    link: Link = "hardlink",
    calibration: Path | None = None,
    report: Report | None = None,
    device: str = "cpu",
) -> Profile:
    """Make `out`, the V14 directory of the checkpoint `src`, and return its profile.

    `calibration` is a file with a calibration set (`v14.upgrade.calibration.own`) in the place of the package's;
    `device` is where the model reads it.
    A finished `out` of the same weights is left as it is. Raises `UpgradeError` or `UnsupportedModelError`, naming what
    cannot be upgraded; then nothing is left behind.
    """
    report = report or Report()
    config = _config(src)
    adapter = adapter_for(config)
    check_transformers(adapter)
    texts = replace(build(SEED), doubts=doubts(SEED)) if calibration is None else own.load(calibration)
    geometry = adapter.geometry(config)
    weights = weights_id(src)
    if out.exists() or out.is_symlink():
        return _finished(out, weights, calibration, report)
    with whole_or_nothing(out) as room:
        tokenizer = _tokenizer(src)
        turns, ends = turn_format(tokenizer), sentence_ends(tokenizer)
        num_layers = math.ceil(len(geometry.layers) * LAYER_SHARE)
        defaults = Options.parse({"recall_floor": 1.0}, "defaults")
        cutter = Cutter(turns=turns, sentence_ends=ends, event_tokens=defaults.event_tokens)
        with (
            quiet_transformers(),
            calm_threads(),
            report.stage("choosing voters", 1 + len(texts.chats) + len(texts.questions)),
        ):
            reader = Reader(src, geometry, num_layers, device)
            measurement = measure(
                reader,
                tokenizer,
                cutter,
                geometry,
                texts,
                num_layers=num_layers,
                cue_tokens=defaults.cue_tokens,
                advance=report.advance,
            )
        with calm_threads():
            choice = choose(measurement)
        asking = Asking(turns=turns, sentence_ends=ends, question_ends=question_ends(tokenizer))
        known = vocabulary(tokenizer)
        second = texts.doubts or texts
        with (
            quiet_transformers(),
            calm_threads(),
            report.stage("how sure to be", len(second.chats) + len(second.questions)),
        ):
            evidence, sketch = measure_doubts(
                reader,
                tokenizer,
                cutter,
                geometry,
                choice.voters,
                second,
                asks=asking,
                vocabulary=known,
                floor=choice.floor,
                cue_tokens=defaults.cue_tokens,
                advance=report.advance,
            )
            sureness = fit(evidence)
        measured = {
            **choice.measured,
            **{name: round(value, 4) for name, value in vars(choice.separation).items()},
            **{
                name: round(value, 4)
                for name, value in vars(sureness).items()
                if name not in ("doubt", "ratio", "linked")
            },
            "separates": choice.separation.good,
            "num_facts": int((measurement.asked >= 0).sum()),
            "num_unrelated": int(((measurement.asked < 0) & ~measurement.strangers).sum()),
            "num_strangers": sum(question.stranger for question in second.questions),
            "num_events": len(measurement.events),
            "first_layer": choice.voters.layers[0],
            "last_layer": choice.voters.layers[-1],
            "num_layers": len(geometry.layers),
        }
        profile = Profile(
            base_architecture=adapter.architecture,
            weights_id=weights,
            geometry=geometry,
            turns=turns,
            sentence_ends=ends,
            question_ends=frozenset(asking.question_ends),
            change_runs=phrase_runs(tokenizer, "change"),
            history_runs=phrase_runs(tokenizer, "history"),
            voters=replace(choice.voters, sketch=sketch),
            doubt=sureness.doubt if choice.separation.good else None,
            vocabulary=known,
            options=defaults.model_copy(
                update={
                    "recall_floor": choice.floor,
                    "recall_ratio": sureness.ratio,
                    "recall_linked": sureness.linked,
                    "recall_max_events": MAX_EVENTS,
                    "reinstate": "kv" if geometry.placeable and geometry.recurrent is None else "reread",
                }
            ),
            measured=measured,
        )
        write(room, src, config, adapter, profile, link)
    for line in separation_lines(measured, choice.floor, sureness):
        report.say(line)
    for remark in (sglang_line(adapter), reread_line(geometry)):
        if remark:
            report.say(remark)
    report.say(f"{out} is ready")
    return profile


def reread_line(geometry: Geometry) -> str | None:
    """Why events are read again instead of placed, None where they are placed."""
    if not geometry.placeable:
        return REREAD_LINE
    return None if geometry.recurrent is None else HYBRID_LINE


def _config(src: Path) -> dict[str, Any]:
    """The checkpoint's config, refused where its weights cannot be read or it has a memory already."""
    try:
        config: dict[str, Any] = json.loads((src / "config.json").read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise UpgradeError(
            f"{src} is no checkpoint directory: config.json cannot be read ({error}); give the directory with it"
        ) from error
    if CONFIG_KEY in config:
        raise UpgradeError(f"{src} is a V14 directory already; give the checkpoint that it was made from")
    packed = config.get("quantization_config") or text_config(config).get("quantization_config")
    if (src / "hf_quant_config.json").exists():
        packed = packed or {"quant_method": "modelopt"}
    if packed and packed.get("quant_method") not in UNPACKED:
        method = packed.get("quant_method", "unknown")
        raise UnsupportedModelError(f"{src}: quantised weights ({method}) are not supported; use the bf16 checkpoint")
    return config


def _finished(out: Path, weights: str, calibration: Path | None, report: Report) -> Profile:
    """The profile of an `out` that is there already, if it is this upgrade's."""
    try:
        profile = Profile.load(out)
    except V14Error as error:
        raise UpgradeError(f"{out} exists and is no V14 directory; remove it or choose another name") from error
    if profile.weights_id != weights:
        raise UpgradeError(f"{out} is the V14 directory of other weights; remove it or choose another name")
    report.say(f"{out} is a V14 directory of these weights already: nothing to do")
    if calibration is not None:
        report.say(f"{calibration} was not used; remove {out} to calibrate with it")
    return profile


def _tokenizer(src: Path) -> Any:
    try:
        return AutoTokenizer.from_pretrained(src, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise UpgradeError(f"{src}: the tokenizer cannot be loaded ({error}); download its files again") from error
