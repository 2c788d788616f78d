"""The law of exactness through Transformers: reading a head, events and a prompt in one sequence, against events read
once, stored on disk, voted for and recalled, and the prompt read behind their span.

Everything is fp32, and the weights of the tiny checkpoints come from one seed.
"""

import logging
from dataclasses import replace

import pytest
import torch

from tests.hf import asking, logits_of, native, options, remembering
from tests.serving import turn
from tests.tiny import EVERY_FAMILY, HYBRIDS, PLAIN, tiny_v14, turns_of
from v14.engines.transformers.reading import forward, read_behind, read_with_memory
from v14.memory import Session
from v14.reinstate import span as span_module
from v14.types import MAX_EVENT_TOKENS

logger = logging.getLogger(__name__)

ROUNDING = 1e-4

CASES = {
    # Turns read before the prompt -> events, by the event length that the case is about. A turn that was never closed
    # is cut anywhere: 129 tokens are an event of 128 and one of 1.
    "1": ([129], [128, 1]),
    "3": ([131], [128, 3]),
    "64": ([64], [64]),
    "127": ([127], [127]),
    "128": ([128], [128]),
    "three in a row": ([40, 64, 33], [40, 64, 33]),
}
UNCLOSED = ("1",)


@pytest.fixture(scope="module", params=EVERY_FAMILY)
def models(request, tmp_path_factory):
    base = tmp_path_factory.mktemp(request.param)
    rank = MAX_EVENT_TOKENS if request.param in HYBRIDS else 0
    directory = tiny_v14(request.param, base / "model", write_generated=False, engram_rank=rank)
    with remembering(directory, base / "memory") as model:
        yield directory, model, native(directory)


only = pytest.mark.parametrize  # The fixture's families, narrowed where a test is about some of them.
EXPERTS = [name for name in EVERY_FAMILY if "moe" in name or name in ("gpt_oss", "nemotron_h_omni", "qwen4_exp")]
HYBRID = only("models", HYBRIDS, indirect=True)
ROTATING = only("models", [name for name in (*PLAIN, *HYBRIDS) if not name.startswith("nemotron")], indirect=True)


def told_and_asked(directory, lengths, closed=True):
    head = turn(directory, "system", 9, seed=1)
    closing = 0 if closed else len(turns_of(directory).closing)
    told = [token for seed, n in enumerate(lengths) for token in turn(directory, "user", n + closing, seed=20 + seed)]
    prompt = turn(directory, "user", 23, seed=2) + asking(directory)
    return head, told[: sum(lengths)], prompt


def tell(model, told, namespace):
    model.generate(torch.tensor([told]), max_new_tokens=1, v14_namespace=namespace, v14_memory="write")
    assert model.v14.store.flush(timeout_s=30)


@torch.no_grad()
def behind_span(model, head, prompt, namespace):
    """Logits of the prompt behind whatever the vote recalls, and the reading."""
    reading = read_with_memory(model, model.v14.session(namespace), head + prompt)
    return forward(model, reading.cache, reading.sequence.token_ids, logits_to_keep=len(prompt)), reading


def distance(one, other):
    assert one.shape == other.shape
    return float((one - other).abs().max())


@pytest.mark.parametrize("case", CASES)
def test_recalled_equals_read(models, case):
    directory, model, plain = models
    turns, events = CASES[case]
    head, told, prompt = told_and_asked(directory, turns, closed=case not in UNCLOSED)
    read = logits_of(plain, head + told + prompt)[-len(prompt) :]
    tell(model, head + told, case)
    assert model.v14_last.num_stored == len(events)

    for way in ("kv", "reread"):
        with options(model, reinstate=way):
            recalled, reading = behind_span(model, head, prompt, case)
        assert [event.num_tokens for event in reading.plan.events] == events
        assert list(reading.sequence.token_ids) == head + told + prompt
        assert reading.way == (way if model.v14.profile.geometry.placeable else "reread")
        # `pytest --log-cli-level=INFO` shows the figures of LOG.md.
        logger.info("%s %s %s %.1e", model.config.model_type, case, way, distance(recalled, read))
        assert distance(recalled, read) < ROUNDING
    # Without this the law would hold for a model that looks at nothing.
    assert distance(logits_of(plain, head + prompt)[-len(prompt) :], read) > 1e-2


@only("models", EXPERTS, indirect=True)
def test_no_token_of_the_law_stands_between_two_experts(models):
    """Rounding must not send a token to another expert: that would be no error of the memory, and break the law."""
    directory, _, plain = models
    gaps = []

    def note(router, _, output):
        logits = output[0].sort(dim=-1, descending=True).values
        gaps.append(float((logits[:, router.top_k - 1] - logits[:, router.top_k]).min()))

    routers = [module for module in plain.modules() if "Router" in type(module).__name__]
    hooks = [router.register_forward_hook(note) for router in routers]
    for turns, _ in CASES.values():
        head, told, prompt = told_and_asked(directory, turns)
        logits_of(plain, head + told + prompt)
    for hook in hooks:
        hook.remove()
    assert len(gaps) == len(CASES) * len(routers) > 0
    logger.info("%s gap between experts %.1e", plain.config.model_type, min(gaps))
    assert min(gaps) > 1e-5


@ROTATING
def test_without_rotation_the_law_breaks(models, monkeypatch):
    directory, model, plain = models
    head, told, prompt = told_and_asked(directory, [64])
    tell(model, head + told, "turned")
    read = logits_of(plain, head + told + prompt)[-len(prompt) :]
    assert distance(behind_span(model, head, prompt, "turned")[0], read) < ROUNDING

    monkeypatch.setattr(span_module, "move_keys", lambda keys, geometry, delta: keys)
    assert distance(behind_span(model, head, prompt, "turned")[0], read) > 10 * ROUNDING


@HYBRID
@pytest.mark.parametrize("lacking", ["engram", "conv tail"])
def test_without_its_engram_the_law_breaks(models, lacking, monkeypatch):
    directory, model, plain = models
    head, told, prompt = told_and_asked(directory, [64])
    tell(model, head + told, lacking)
    read = logits_of(plain, head + told + prompt)[-len(prompt) :]
    if lacking == "engram":
        with options(model, engram_rank=0):
            tell(model, head + told, "rank 0")
        recalled = behind_span(model, head, prompt, "rank 0")[0]
    else:
        whole = Session.span

        def tailless(*args):
            span = whole(*args)
            return replace(span, engrams=[replace(e, tail=torch.zeros_like(e.tail)) for e in span.engrams])

        monkeypatch.setattr(Session, "span", tailless)
        recalled = behind_span(model, head, prompt, lacking)[0]
    logger.info("%s without %s %.1e", model.config.model_type, lacking, distance(recalled, read))
    assert distance(recalled, read) > 100 * ROUNDING


@HYBRID
def test_parts_of_a_span_are_no_whole(models):
    """What experiments compare: keys and values without engrams, engrams without keys and values, both."""
    directory, model, plain = models
    head, told, prompt = told_and_asked(directory, [64])
    tell(model, head + told, "parts")
    session = model.v14.session("parts")
    _, reading = behind_span(model, head, prompt, "parts")
    span = session.span(reading.placements[-1], len(head))
    read = logits_of(plain, head + told + prompt)[-len(prompt) :]
    found = {}
    with torch.no_grad():
        for parts in ("kv", "engram", "both"):
            reading = read_behind(model, session, head + prompt, span, parts)
            assert list(reading.sequence.token_ids) == head + (told if parts != "engram" else []) + prompt
            found[parts] = forward(model, reading.cache, reading.sequence.token_ids, logits_to_keep=len(prompt))
    assert distance(found["both"], read) < ROUNDING
    assert distance(found["kv"], read) > 100 * ROUNDING
    assert distance(found["engram"], read) > 100 * ROUNDING
    assert distance(found["engram"], logits_of(plain, head + prompt)[-len(prompt) :]) > 100 * ROUNDING


@pytest.mark.parametrize("position", [1, 37, 700])
@only("models", PLAIN, indirect=True)
def test_placed_equals_computed_there(models, position):
    """Keys and values of an event without context, moved to a position, are those computed at that position."""
    directory, model, _ = models
    ids = torch.tensor([turn(directory, "user", 50, seed=3)])
    geometry = model.v14.profile.geometry
    with torch.no_grad():
        here, there = (
            model(ids, position_ids=torch.arange(start, start + 50)[None], use_cache=True).past_key_values
            for start in (0, position)
        )
    for slot, layer in enumerate(geometry.layers):
        keep = min(50, (layer.window or 50) - 1)
        moved = span_module.move_keys(
            here.layers[slot].keys[:, :, -keep:].expand(len(geometry.layers), -1, -1, -1), geometry, position
        )
        torch.testing.assert_close(moved[slot], there.layers[slot].keys[0, :, -keep:], atol=1e-4, rtol=0)
        torch.testing.assert_close(here.layers[slot].values, there.layers[slot].values, atol=1e-4, rtol=0)
