"""Recordings against the states themselves: recurrent layers token by token, in passes of any length."""

from functools import cache
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import silu, softplus

from v14.engines.sglang.passes import Pass
from v14.engines.sglang.recording import Recording
from v14.engines.sglang.recurrent import GatedDeltaRead, Mamba2Read, ShortConvRead, StatePool, refused_states
from v14.engram import advance, gated_delta, naive
from v14.geometry import Geometry, RecurrentStack

NUM_TOKENS, HIDDEN, WIDTH = 150, 6, 4
KEYS, VALUES, K, P = 1, 2, 4, 3
"""Heads that share keys, heads, and their dimensions."""


class Engine:
    """Two recurrent layers of one kind on random inputs, and a pool with one slot."""

    def __init__(self, kind):
        generator = torch.Generator().manual_seed(14)

        def random(*shape):
            return torch.randn(*shape, generator=generator)

        self.kind = kind
        heads, key_dim, value_dim = (0, 0, 0) if kind == "conv" else (VALUES, K, P)
        channels = {"gated_delta": 2 * KEYS * K + VALUES * P, "mamba2": VALUES * P + 2 * KEYS * K, "conv": HIDDEN}[kind]
        self.stack = RecurrentStack(
            kind=kind,
            indices=(0, 2),
            num_heads=heads,
            key_dim=key_dim,
            value_dim=value_dim,
            conv_channels=channels,
            conv_width=WIDTH,
        )
        state = SimpleNamespace(
            conv=[torch.full((2, 3, channels, WIDTH - 1), torch.nan)],
            temporal=torch.full((2, 3, heads or 1, value_dim or HIDDEN, key_dim), torch.nan),
        )
        self.pool = SimpleNamespace(mamba_pool=SimpleNamespace(mamba_cache=state), mamba_map={0: 0, 2: 1})
        self.states = StatePool(self.pool, self.stack)
        self.slot = torch.tensor([1])
        self.weights = random(2, channels, WIDTH)
        self.mixed = random(2, NUM_TOKENS, channels)
        self.gates = random(2, NUM_TOKENS, VALUES), random(2, NUM_TOKENS, VALUES)
        self.log_a, self.bias = random(2, VALUES), random(2, VALUES)
        self.projection = random(2, HIDDEN, {"mamba2": VALUES * P + channels + VALUES}.get(kind, 3 * HIDDEN))
        self.hidden = random(2, NUM_TOKENS, HIDDEN)

    def read(self, layer, start, end):
        """What the layer is about to read of the tokens [start, end)."""
        rows = slice(start, end)
        if self.kind == "gated_delta":
            module = SimpleNamespace(
                conv_weights=self.weights[layer],
                bias=None,
                q_dim=KEYS * K,
                k_dim=KEYS * K,
                v_dim=VALUES * P,
                num_k_heads=KEYS,
                num_v_heads=VALUES,
                A_log=self.log_a[layer],
                dt_bias=self.bias[layer],
            )
            return GatedDeltaRead(
                module, self.mixed[layer, rows], self.gates[0][layer, rows], self.gates[1][layer, rows]
            )
        projection = self.projection[layer]
        module = SimpleNamespace(in_proj=lambda hidden: (hidden @ projection, None))
        if self.kind == "conv":
            module.conv_weight, module.conv_bias = self.weights[layer], None
            return ShortConvRead(module, self.hidden[layer, rows])
        module.intermediate_size, module.groups_ssm_state_size = VALUES * P, KEYS * K
        module.conv_dim, module.num_heads, module.n_groups = self.stack.conv_channels, VALUES, KEYS
        module.conv1d = SimpleNamespace(weight=self.weights[layer][:, None], bias=None)
        module.A, module.dt_bias = -self.log_a[layer].exp(), self.bias[layer]
        return Mamba2Read(module, self.hidden[layer, rows])

    @cache  # noqa: B019 - three engines, for as long as the tests run
    def behind(self, layer, end):
        """State and convolution inputs behind the first `end` tokens, one by one."""
        read = self.read(layer, 0, NUM_TOKENS)
        inputs = torch.cat([torch.zeros(WIDTH - 1, self.stack.conv_channels), read.inputs(slice(0, end))])
        last = inputs[inputs.shape[0] - WIDTH + 1 :].mT
        state = torch.zeros(VALUES, P, K)
        windows = inputs.unfold(0, WIDTH, 1) if end else inputs.new_zeros(0, self.stack.conv_channels, WIDTH)
        convolved = silu((windows * self.weights[layer]).sum(-1))
        if self.kind == "gated_delta":
            _, keys, values = convolved.split([K * KEYS, K * KEYS, VALUES * P], dim=-1)
            steps = softplus(self.gates[0][layer, :end] + self.bias[layer])
            decay, beta = -self.log_a[layer].exp() * steps, self.gates[1][layer, :end].sigmoid()
            keys = gated_delta.normalise(keys.unflatten(-1, (KEYS, K)))
            return naive.gated_delta(state, keys, values.unflatten(-1, (VALUES, P)), decay, beta), last
        if self.kind == "mamba2":
            x, b, _ = convolved.split([VALUES * P, K * KEYS, K * KEYS], dim=-1)
            steps = softplus((self.hidden[layer, :end] @ self.projection[layer])[:, -VALUES:] + self.bias[layer])
            a = -self.log_a[layer].exp()
            return naive.mamba2(state, x.unflatten(-1, (VALUES, P)), b.unflatten(-1, (KEYS, K)), steps, a), last
        return state[:0, :0, :0], last

    def run(self, recording, edges, begin=0):
        """Read [begin, …) in passes that end at `edges`, the slot as the engine leaves it between them."""
        for start, end in zip([begin, *edges[:-1]], edges, strict=True):
            for layer in range(2):
                state, inputs = self.behind(layer, start)
                self.states.conv[layer, 1] = inputs
                self.states.temporal[layer, 1] = state
            part = Pass(rid="", place=0, start=start, length=end - start, first_row=0)
            runs = recording.runs(part)
            for layer in range(2):
                if runs:
                    recording.note(layer, self.read(layer, start, end), part, self.slot, runs)


ENGINES = {kind: Engine(kind) for kind in ("gated_delta", "mamba2", "conv")}
CUTS = st.lists(st.integers(1, NUM_TOKENS - 1), max_size=3, unique=True).map(lambda cuts: [*sorted(cuts), NUM_TOKENS])


@pytest.mark.parametrize("kind", ENGINES)
@settings(max_examples=25)
@given(heads=st.lists(st.integers(1, NUM_TOKENS), min_size=1, max_size=2, unique=True), edges=CUTS)
def test_states_at_the_heads_are_the_states_there(kind, heads, edges):
    engine = ENGINES[kind]
    recording = Recording(pool=engine.states, rank=0, heads=tuple(heads))
    engine.run(recording, edges)
    for head in heads:
        states, inputs = recording.states_at(head)
        for layer in range(2):
            state, last = engine.behind(layer, head)
            torch.testing.assert_close(states[layer], state, atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(inputs[layer], last)


@pytest.mark.parametrize("kind", ENGINES)
@settings(max_examples=25)
@given(
    start=st.integers(0, 60),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=2),
    gap=st.integers(0, 5),
    edges=CUTS,
)
def test_engrams_take_the_states_across_their_events(kind, start, lengths, gap, edges):
    engine = ENGINES[kind]
    events = []
    for length in lengths:
        events.append((start, start + length))
        start += length + gap
    recording = Recording(pool=engine.states, rank=128, events=tuple(events))
    engine.run(recording, edges)
    for begin, end in events:
        engram = recording.engram(begin, end)
        before = [engine.behind(layer, begin) for layer in range(2)]
        states, inputs = (torch.stack(part) for part in zip(*before, strict=True))
        states, inputs = advance(states, inputs, [engram])
        for layer in range(2):
            state, last = engine.behind(layer, end)
            torch.testing.assert_close(states[layer], state, atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(inputs[layer], last)


def test_what_was_not_read_is_not_known():
    engine = ENGINES["gated_delta"]
    recording = Recording(pool=engine.states, rank=4, heads=(20,), events=((30, 50), (60, 80)))
    engine.run(recording, [NUM_TOKENS], begin=40)
    assert recording.states_at(20) is None
    assert recording.engram(30, 50) is None
    assert recording.engram(60, 80) is not None


def test_a_request_that_is_read_again_is_recorded_anew():
    engine = ENGINES["mamba2"]
    recording = Recording(pool=engine.states, rank=128, events=((10, 30),))
    engine.run(recording, [20])
    engine.run(recording, [NUM_TOKENS])
    whole = Recording(pool=engine.states, rank=128, events=((10, 30),))
    engine.run(whole, [NUM_TOKENS])
    for name, tensor in recording.engram(10, 30).tensors().items():
        torch.testing.assert_close(tensor, whole.engram(10, 30).tensors()[name])


def test_states_of_another_shape_are_refused():
    engine = ENGINES["gated_delta"]
    geometry = Geometry(num_heads=1, num_kv_heads=1, head_dim=2, layers=(), recurrent=engine.stack)
    assert refused_states(engine.pool, geometry) == []
    state = engine.pool.mamba_pool.mamba_cache
    turned = SimpleNamespace(conv=[state.conv[0].mT], temporal=state.temporal)
    pool = SimpleNamespace(mamba_pool=SimpleNamespace(mamba_cache=turned), mamba_map=engine.pool.mamba_map)
    assert "shapes" in refused_states(pool, geometry)[0]
    assert "[0, 1]" in refused_states(SimpleNamespace(mamba_pool=None, mamba_map={0: 0, 1: 1}), geometry)[0]
    assert "[]" in refused_states(SimpleNamespace(), geometry)[0]
