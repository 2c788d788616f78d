import pytest
import torch

from tests.hf import native
from tests.tiny import geometry_of, tiny_checkpoint
from v14.engines.transformers.cache import MemoryCache
from v14.engines.transformers.recording import Recording, watch
from v14.engram import advance
from v14.errors import UnsupportedModelError
from v14.types import Span

CPU = torch.device("cpu")
ROUNDING = 2e-5
LENGTH, START, END = 90, 30, 70


@pytest.fixture(scope="module", params=["qwen3_5", "qwen3_5_moe_vl", "nemotron_h", "lfm2"])
def setting(request):
    """Model, geometry, and the recurrent layers watched."""
    checkpoint = tiny_checkpoint(request.param)
    model, geometry = native(checkpoint), geometry_of(checkpoint)
    return model, geometry, watch(model, geometry)


def tokens(n, seed=0):
    return torch.randint(300, 900, (1, n), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def read(model, ids, cache):
    return model(ids, past_key_values=cache, use_cache=True).logits


def recording_cache(setting):
    model, geometry, mixers = setting
    return MemoryCache(geometry, model.config, Recording(mixers))


def states_of(cache, geometry):
    """States `[R, N, P, K]` and convolution inputs `[R, C, W - 1]` of the library's layers."""
    stack = geometry.recurrent
    layers = [cache.layers[index] for index in stack.indices]
    inputs = torch.stack([layer.conv_states[0][0, :, 1 - stack.conv_width :] for layer in layers])
    if not stack.num_heads:
        return torch.zeros(len(layers), 0, 0, 0), inputs
    states = torch.stack([layer.recurrent_states[0][0] for layer in layers])
    return states.mT if stack.kind == "gated_delta" else states, inputs


def assert_same(one, other):
    for name, part in one.tensors().items():
        torch.testing.assert_close(part, other.tensors()[name], atol=ROUNDING, rtol=1e-4)


@pytest.mark.parametrize("end", [START + 1, START + 2, END])
def test_an_engram_takes_the_states_from_one_end_of_its_event_to_the_other(setting, end):
    model, geometry, _ = setting
    cache, ids = recording_cache(setting), tokens(LENGTH)
    read(model, ids[:, :START], cache)
    before = [part.clone() for part in states_of(cache, geometry)]
    read(model, ids[:, START:end], cache)
    engram = cache.read_engram(START, end)
    for found, expected in zip(advance(*before, [engram]), states_of(cache, geometry), strict=True):
        torch.testing.assert_close(found, expected, atol=ROUNDING, rtol=1e-4)


@pytest.mark.parametrize("chunks", [[30, 40, 20], [1] * 40 + [50], [29, 2, 38, 21]], ids=["three", "steps", "across"])
def test_in_how_many_passes_it_was_read_changes_nothing(setting, chunks):
    whole, pieces = recording_cache(setting), recording_cache(setting)
    read(setting[0], tokens(LENGTH), whole)
    for piece in tokens(LENGTH).split(chunks, dim=1):
        read(setting[0], piece, pieces)
    for start, end in [(0, 2), (START, END), (END, LENGTH)]:
        assert_same(pieces.read_engram(start, end), whole.read_engram(start, end))


@pytest.mark.parametrize("behind", [0, 1, 5])
def test_an_event_behind_a_placed_one_is_what_it_is_in_one_sequence(setting, behind):
    model = setting[0]
    whole, placing, ids = recording_cache(setting), recording_cache(setting), tokens(LENGTH)
    read(model, ids, whole)
    read(model, ids[:, :START], placing)
    keys, values = whole.read(START, END)
    span = Span(
        position=START,
        token_ids=tuple(ids[0, START:END].tolist()),
        keys=keys,
        values=values,
        engrams=(whole.read_engram(START, START + 2), None, whole.read_engram(START + 2, END)),
    )
    placing.append(span, CPU, torch.float32)
    read(model, ids[:, END:], placing)
    assert_same(placing.read_engram(END + behind, LENGTH), whole.read_engram(END + behind, LENGTH))
    assert_same(placing.read_engram(3, START), whole.read_engram(3, START))
    for start, end in [(START, END), (START - 1, START + 1), (END - 1, LENGTH), (END, LENGTH + 1)]:
        with pytest.raises(ValueError, match="were not read"):
            placing.read_engram(start, end)


def test_what_was_truncated_is_forgotten(setting):
    model = setting[0]
    cache, straight = recording_cache(setting), recording_cache(setting)
    for each, detour in ((cache, 50), (straight, 0)):
        read(model, tokens(START), each)
        each.checkpoint()
        if detour:
            read(model, tokens(detour, seed=1), each)
            each.truncate(START)
        read(model, tokens(LENGTH - START, seed=2), each)
    assert_same(cache.read_engram(START, LENGTH), straight.read_engram(START, LENGTH))


def test_other_caches_and_other_layers_are_left_alone(setting):
    model, geometry, mixers = setting
    recording = Recording(mixers)
    with torch.no_grad():
        model(tokens(9), use_cache=True)
    quiet = MemoryCache(geometry, model.config)
    read(model, tokens(9), quiet)
    assert quiet.read_engram(0, 9) is None
    with pytest.raises(ValueError, match="were not read"):
        recording.engram(0, 9)


def test_a_model_without_the_layers_it_should_have_is_refused():
    with pytest.raises(UnsupportedModelError, match="LlamaForCausalLM"):
        watch(native(tiny_checkpoint("llama")), geometry_of(tiny_checkpoint("lfm2")))
