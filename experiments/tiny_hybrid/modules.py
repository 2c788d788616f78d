"""The two architectures for training: parameters named as in Transformers, the recurrences in `scan`'s matrix products.

Parameters are kept in fp32 and cast where they are used, so that what runs is what the exported bf16 model runs.
B batch, T tokens, E hidden width, D head width.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.tiny_hybrid.scan import gated_delta_rule, mamba2_scan


class Linear(nn.Linear):
    """Without bias, in the dtype of its input."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__(fan_in, fan_out, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x Wᵀ."""
        return functional.linear(x, self.weight.to(x.dtype))


class RMSNorm(nn.Module):
    """Root mean square norm in fp32; `offset` 1 where the weight is stored as its distance from 1."""

    def __init__(self, width: int, eps: float, *, offset: float = 0.0) -> None:
        super().__init__()
        self.eps = eps
        self.offset = offset
        self.weight = nn.Parameter(torch.full((width,), 1.0 - offset))

    def forward(self, x: Tensor) -> Tensor:
        """Normalized over the last dimension."""
        return (_normalized(x.float(), self.eps) * (self.offset + self.weight)).to(x.dtype)


class Convolution(nn.Module):
    """A causal convolution of every channel, with SiLU. Its weight is that of `nn.Conv1d`: [channels, 1, width]."""

    def __init__(self, channels: int, width: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, 1, width).uniform_(-1, 1) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None

    def forward(self, x_BTC: Tensor) -> Tensor:
        """Shifted sums: quicker than a grouped convolution of width 4."""
        width = self.weight.shape[-1]
        weight = self.weight.to(x_BTC.dtype)
        padded = functional.pad(x_BTC, (0, 0, width - 1, 0))
        length = x_BTC.shape[1]
        total = sum((padded[:, n : n + length] * weight[:, 0, n] for n in range(width)), torch.zeros_like(x_BTC))
        return functional.silu(total if self.bias is None else total + self.bias.to(total.dtype))


class DeltaNet(nn.Module):
    """Gated DeltaNet as in Qwen3.5."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.key_heads, self.value_heads = config.linear_num_key_heads, config.linear_num_value_heads
        self.key_dim, self.value_dim = config.linear_key_head_dim, config.linear_value_head_dim
        keys, values = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        self.widths = (keys, keys, values)
        self.in_proj_qkv = Linear(config.hidden_size, sum(self.widths))
        self.in_proj_z = Linear(config.hidden_size, values)
        self.in_proj_b = Linear(config.hidden_size, self.value_heads)
        self.in_proj_a = Linear(config.hidden_size, self.value_heads)
        self.conv1d = Convolution(sum(self.widths), config.linear_conv_kernel_dim, bias=False)
        self.A_log = nn.Parameter(torch.empty(self.value_heads).uniform_(1, 16).log())
        self.dt_bias = nn.Parameter(_step_bias(self.value_heads))
        self.norm = RMSNorm(self.value_dim, config.rms_norm_eps)
        self.out_proj = Linear(values, config.hidden_size)

    def forward(self, x_BTE: Tensor) -> Tensor:
        """[B, T, E] from an empty state."""
        query, key, value = self.conv1d(self.in_proj_qkv(x_BTE)).split(self.widths, -1)
        query, key = (_unit(part.unflatten(-1, (self.key_heads, self.key_dim))) for part in (query, key))
        value = value.unflatten(-1, (self.value_heads, self.value_dim))
        beta = self.in_proj_b(x_BTE).sigmoid()
        log_decay = -self.A_log.exp() * _softplus(self.in_proj_a(x_BTE).float() + self.dt_bias)
        output = self.norm(gated_delta_rule(query, key, value, log_decay, beta))
        gate = self.in_proj_z(x_BTE).unflatten(-1, (self.value_heads, self.value_dim))
        return self.out_proj((output * functional.silu(gate.float())).to(x_BTE.dtype).flatten(2))


class GatedAttention(nn.Module):
    """Full attention as in Qwen3.5: normalized queries and keys, partial rotation, a gate on the output."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = Linear(config.hidden_size, 2 * self.heads * self.dim)
        self.k_proj = Linear(config.hidden_size, self.kv_heads * self.dim)
        self.v_proj = Linear(config.hidden_size, self.kv_heads * self.dim)
        self.o_proj = Linear(self.heads * self.dim, config.hidden_size)
        self.q_norm = RMSNorm(self.dim, config.rms_norm_eps, offset=1.0)
        self.k_norm = RMSNorm(self.dim, config.rms_norm_eps, offset=1.0)
        rope = config.rope_parameters
        self.turning = int(self.dim * rope["partial_rotary_factor"])
        self.theta = rope["rope_theta"]

    def forward(self, x_BTE: Tensor) -> Tensor:
        """[B, T, E], causal."""
        query, gate = self.q_proj(x_BTE).unflatten(-1, (self.heads, 2 * self.dim)).chunk(2, -1)
        key, value = (p(x_BTE).unflatten(-1, (self.kv_heads, self.dim)) for p in (self.k_proj, self.v_proj))
        output = _attention(self._turned(self.q_norm(query)), self._turned(self.k_norm(key)), value)
        return self.o_proj(output.flatten(2) * gate.flatten(2).sigmoid())

    def _turned(self, x_BTHD: Tensor) -> Tensor:
        steps = torch.arange(0, self.turning, 2, device=x_BTHD.device, dtype=torch.float32)
        position = torch.arange(x_BTHD.shape[1], device=x_BTHD.device, dtype=torch.float32)
        angle = position[:, None, None] * self.theta ** (-steps / self.turning)
        cos, sin = angle.cos().to(x_BTHD.dtype), angle.sin().to(x_BTHD.dtype)
        first, second, rest = x_BTHD.split((self.turning // 2, self.turning // 2, x_BTHD.shape[-1] - self.turning), -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), -1)


class GatedMLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.gate_proj = Linear(config.hidden_size, config.intermediate_size)
        self.up_proj = Linear(config.hidden_size, config.intermediate_size)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """The width of the input."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class DeltaNetLayer(nn.Module):
    """A recurrent layer of Qwen3.5."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps, offset=1.0)
        self.linear_attn = DeltaNet(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps, offset=1.0)
        self.mlp = GatedMLP(config)

    def forward(self, x: Tensor) -> Tensor:
        """The residual stream behind the layer."""
        x = x + self.linear_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class GatedAttentionLayer(nn.Module):
    """An attention layer of Qwen3.5."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps, offset=1.0)
        self.self_attn = GatedAttention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps, offset=1.0)
        self.mlp = GatedMLP(config)

    def forward(self, x: Tensor) -> Tensor:
        """The residual stream behind the layer."""
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Mamba2(nn.Module):
    """Mamba2 as in Nemotron-H."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.heads, self.dim = config.mamba_num_heads, config.mamba_head_dim
        self.groups, self.state = config.n_groups, config.ssm_state_size
        self.width = self.heads * self.dim
        self.widths = (self.width, self.groups * self.state, self.groups * self.state)
        self.in_proj = Linear(config.hidden_size, self.width + sum(self.widths) + self.heads)
        self.conv1d = Convolution(sum(self.widths), config.conv_kernel, bias=config.use_conv_bias)
        self.A_log = nn.Parameter(torch.arange(1, self.heads + 1).float().log())
        self.D = nn.Parameter(torch.ones(self.heads))
        self.dt_bias = nn.Parameter(_step_bias(self.heads))
        self.least_step = config.time_step_min
        self.norm = RMSNorm(self.width, config.layer_norm_epsilon)
        self.out_proj = Linear(self.width, config.hidden_size)

    def forward(self, x_BTE: Tensor) -> Tensor:
        """[B, T, E] from an empty state."""
        gate, mixed, step = self.in_proj(x_BTE).split((self.width, sum(self.widths), self.heads), -1)
        x, write, read = self.conv1d(mixed).split(self.widths, -1)
        step = _softplus(step.float() + self.dt_bias).clamp(min=self.least_step)
        output = mamba2_scan(
            x.unflatten(-1, (self.heads, self.dim)),
            step,
            -self.A_log.exp(),
            write.unflatten(-1, (self.groups, self.state)),
            read.unflatten(-1, (self.groups, self.state)),
            self.D,
        )
        gated = output.flatten(2).float() * functional.silu(gate.float())
        # Normalized within a group, behind the gate.
        grouped = _normalized(gated.unflatten(-1, (self.groups, -1)), self.norm.eps).flatten(2)
        return self.out_proj((grouped * self.norm.weight).to(x_BTE.dtype))


class PlainAttention(nn.Module):
    """Full attention as in Nemotron-H: no rotation, no gate."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = Linear(config.hidden_size, self.heads * self.dim)
        self.k_proj = Linear(config.hidden_size, self.kv_heads * self.dim)
        self.v_proj = Linear(config.hidden_size, self.kv_heads * self.dim)
        self.o_proj = Linear(self.heads * self.dim, config.hidden_size)

    def forward(self, x_BTE: Tensor) -> Tensor:
        """[B, T, E], causal."""
        query = self.q_proj(x_BTE).unflatten(-1, (self.heads, self.dim))
        key, value = (p(x_BTE).unflatten(-1, (self.kv_heads, self.dim)) for p in (self.k_proj, self.v_proj))
        return self.o_proj(_attention(query, key, value).flatten(2))


class SquaredMLP(nn.Module):
    """Two products with the square of ReLU between."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.up_proj = Linear(config.hidden_size, config.intermediate_size)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """The width of the input."""
        return self.down_proj(functional.relu(self.up_proj(x)).square())


class Block(nn.Module):
    """A layer of Nemotron-H: one mixer behind one norm."""

    def __init__(self, config: Any, mixer: nn.Module) -> None:
        super().__init__()
        self.norm = RMSNorm(config.hidden_size, config.layer_norm_epsilon)
        self.mixer = mixer

    def forward(self, x: Tensor) -> Tensor:
        """The residual stream behind the layer."""
        return x + self.mixer(self.norm(x))


class Hybrid(nn.Module):
    """A causal language model of either architecture, from its Transformers configuration."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.model = nn.Module()
        embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        if config.model_type == "qwen3_5_text":
            kinds = {"linear_attention": DeltaNetLayer, "full_attention": GatedAttentionLayer}
            self.layers = nn.ModuleList([kinds[kind](config) for kind in config.layer_types])
            self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, offset=1.0)
            self.model.embed_tokens, self.model.norm = embedding, self.norm
        elif config.model_type == "nemotron_h":
            mixers = {"M": Mamba2, "*": PlainAttention, "-": SquaredMLP}
            pattern = config.hybrid_override_pattern
            self.layers = nn.ModuleList([Block(config, mixers[letter](config)) for letter in pattern])
            self.norm = RMSNorm(config.hidden_size, config.layer_norm_epsilon)
            self.model.embeddings, self.model.norm_f = embedding, self.norm
        else:
            raise ValueError(f"no training form of {config.model_type}")
        self.model.layers = self.layers
        self.embedding = embedding
        self.lm_head = Linear(config.hidden_size, config.vocab_size)
        if config.tie_word_embeddings:
            self.lm_head.weight = embedding.weight
        self._initialize(len(self.layers))

    def _initialize(self, num_layers: int) -> None:
        for name, module in self.named_modules():
            if isinstance(module, Linear):
                std = 0.5 / math.sqrt(module.in_features)
                if name.endswith(("out_proj", "o_proj", "down_proj")):
                    std /= math.sqrt(num_layers)
                nn.init.normal_(module.weight, std=std)
        nn.init.normal_(self.embedding.weight, std=0.05)

    def forward(self, ids_BT: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Logits [B, T, vocabulary] in `dtype`."""
        x = functional.embedding(ids_BT, self.embedding.weight).to(dtype)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))

    def named_weights(self) -> dict[str, Tensor]:
        """The parameters by their names in Transformers, each once."""
        return {
            name: parameter.detach()
            for name, parameter in self.named_parameters(remove_duplicate=False)
            if name.startswith("model.") or (name == "lm_head.weight" and parameter is not self.embedding.weight)
        }


def _normalized(x: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def _unit(x: Tensor) -> Tensor:
    """Of length 1, as the delta rule's kernels make queries and keys."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + 1e-6)).to(x.dtype)


def _attention(query_BTHD: Tensor, key_BTGD: Tensor, value_BTGD: Tensor) -> Tensor:
    repeats = query_BTHD.shape[2] // key_BTGD.shape[2]
    key, value = (x.repeat_interleave(repeats, 2).transpose(1, 2) for x in (key_BTGD, value_BTGD))
    return functional.scaled_dot_product_attention(query_BTHD.transpose(1, 2), key, value, is_causal=True).transpose(
        1, 2
    )


def _softplus(x: Tensor) -> Tensor:
    """log(1 + eˣ). The library's own has a derivative that, compiled, gets other strides than it is traced with."""
    return torch.logaddexp(x, torch.zeros_like(x))


def _step_bias(heads: int) -> Tensor:
    """The inverse of softplus of steps spread between 0.001 and 0.1, as both families begin."""
    step = torch.exp(torch.rand(heads) * math.log(100) + math.log(0.001))
    return step + torch.log(-torch.expm1(-step))
