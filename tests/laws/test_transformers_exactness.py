"""The law of exactness through Transformers: reading a head, events and a prompt in one sequence, against events read
once, stored on disk, voted for and recalled, and the prompt read behind their span."""

import pytest
import torch

from tests.hf import asking, logits_of, native, remembering
from tests.serving import turn
from tests.tiny import FAMILIES, tiny_v14, turns_of
from v14.engines.transformers.reading import Clock, forward, read_with_memory
from v14.reinstate import span as span_module

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


@pytest.fixture(scope="module", params=FAMILIES)
def models(request, tmp_path_factory):
    base = tmp_path_factory.mktemp(request.param)
    directory = tiny_v14(request.param, base / "model", write_generated=False)
    with remembering(directory, base / "memory") as model:
        yield directory, model, native(directory)


def told_and_asked(directory, lengths, closed=True):
    head = turn(directory, "system", 9, seed=1)
    closing = 0 if closed else len(turns_of(directory).closing)
    told = [token for seed, n in enumerate(lengths) for token in turn(directory, "user", n + closing, seed=10 + seed)]
    prompt = turn(directory, "user", 23, seed=2) + asking(directory)
    return head, told[: sum(lengths)], prompt


@torch.no_grad()
def behind_span(model, head, prompt, namespace):
    """Logits of the prompt behind whatever the vote recalls, and the reading."""
    reading = read_with_memory(model, model.v14.session(namespace), head + prompt, Clock())
    return forward(model, reading.cache, reading.sequence.token_ids, logits_to_keep=len(prompt)), reading


@pytest.mark.parametrize("case", CASES)
def test_recalled_equals_read(models, case):
    directory, model, plain = models
    turns, events = CASES[case]
    head, told, prompt = told_and_asked(directory, turns, closed=case not in UNCLOSED)

    model.generate(torch.tensor([head + told]), max_new_tokens=1, v14_namespace=case, v14_memory="write")
    assert model.v14_last.num_stored == len(events)
    assert model.v14.store.flush(timeout_s=30)
    recalled, reading = behind_span(model, head, prompt, case)
    read = logits_of(plain, head + told + prompt)[-len(prompt) :]

    assert [event.num_tokens for event in reading.plan.events] == events
    assert list(reading.sequence.token_ids) == head + told + prompt
    assert recalled.shape == read.shape
    assert (recalled - read).abs().max() < 1e-4
    # Without this the law would hold for a model that looks at nothing.
    assert (logits_of(plain, head + prompt)[-len(prompt) :] - read).abs().max() > 1e-2


def test_without_rotation_the_law_breaks(models, monkeypatch):
    directory, model, plain = models
    head, told, prompt = told_and_asked(directory, [64])
    model.generate(torch.tensor([head + told]), max_new_tokens=1, v14_namespace="control", v14_memory="write")
    read = logits_of(plain, head + told + prompt)[-len(prompt) :]
    assert (behind_span(model, head, prompt, "control")[0] - read).abs().max() < 1e-4

    monkeypatch.setattr(span_module, "move_keys", lambda keys, geometry, delta: keys)
    assert (behind_span(model, head, prompt, "control")[0] - read).abs().max() > 1e-3


@pytest.mark.parametrize("position", [1, 37, 700])
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
