"""Recurrent layers over a whole sequence in matrix products, for training: the gated delta rule and Mamba2's scan.

Both cut the sequence into chunks. Inside a chunk everything is a masked product; from chunk to chunk the state goes
through one small product. B batch, T tokens, H heads, G groups, N chunks, C tokens of a chunk, K and V key and value
width, P and S width of a Mamba2 head and of its state.
"""

import torch
from torch import Tensor
from torch.nn import functional

CHUNK = 64


def gated_delta_rule(
    query_BTGK: Tensor, key_BTGK: Tensor, value_BTHV: Tensor, log_decay_BTH: Tensor, beta_BTH: Tensor
) -> Tensor:
    """Outputs [B, T, H, V] of S ↦ αS(I − βkkᵀ) + βvkᵀ from an empty state, read with q/√K.

    Queries and keys are given already normalized, each of their G heads for H/G value heads. Decays are accumulated in
    fp32; products are made in the dtype of `value_BTHV`, the state and the inverse in fp32. The chunk's triangular
    system is that of Yang et al. 2024, "Gated Delta Networks", section 3.3 (WY form).
    """
    dtype = value_BTHV.dtype
    length, repeats = value_BTHV.shape[1], value_BTHV.shape[2] // key_BTGK.shape[2]
    query, key = (_chunked(x, length).repeat_interleave(repeats, 1) for x in (query_BTGK, key_BTGK))
    value = _chunked(value_BTHV, length)
    log_decay, beta = (_chunked(x.unsqueeze(-1), length).float() for x in (log_decay_BTH, beta_BTH))
    query = query * query.shape[-1] ** -0.5

    decay = log_decay.cumsum(-2)
    between = _decays(decay)
    key_beta = (key * beta).to(dtype)
    lower = torch.tril((key_beta @ key.transpose(-1, -2)).float() * between, -1)
    inverse = _unit_lower_inverse(lower).to(dtype)
    grown = decay.exp()
    new_value = inverse @ (value * beta).to(dtype)
    new_key = inverse @ (key_beta * grown).to(dtype)

    last = decay[..., -1:, :]
    to_end = (key * (last - decay).exp()).to(dtype).transpose(-1, -2)
    # One chunk maps the state as S ↦ MS + R.
    width = key.shape[-1]
    eye = torch.eye(width, device=key.device, dtype=torch.float32)
    carry = last.exp() * eye - (to_end @ new_key).float()
    added = (to_end @ new_value).float()
    state = torch.zeros_like(added[:, :, 0])
    before = []
    for number in range(added.shape[2]):
        before.append(state)
        state = added[:, :, number] + carry[:, :, number] @ state
    states = torch.stack(before, 2).to(dtype)

    inside = torch.tril((query @ key.transpose(-1, -2)).float() * between).to(dtype)
    output = (query * grown).to(dtype) @ states + inside @ (new_value - new_key @ states)
    return _joined(output, length)


def mamba2_scan(
    x_BTHP: Tensor, step_BTH: Tensor, rate_H: Tensor, B_BTGS: Tensor, C_BTGS: Tensor, skip_H: Tensor
) -> Tensor:
    """Outputs [B, T, H, P] of S ↦ exp(Δa)S + Δx Bᵀ from an empty state, read with C, and D·x beside it.

    `step_BTH` is Δ after softplus, `rate_H` the negative a. Dao and Gu 2024, "Transformers are SSMs", section 6.
    """
    dtype = x_BTHP.dtype
    length, heads = x_BTHP.shape[1], x_BTHP.shape[2]
    repeats = heads // B_BTGS.shape[2]
    scaled = _chunked((x_BTHP * step_BTH.unsqueeze(-1)).to(dtype), length)
    log_decay = _chunked((step_BTH.float() * rate_H.float()).unsqueeze(-1), length)
    write = _chunked(B_BTGS, length).repeat_interleave(repeats, 1)
    read = _chunked(C_BTGS, length).repeat_interleave(repeats, 1)

    decay = log_decay.cumsum(-2)
    inside = torch.tril((read @ write.transpose(-1, -2)).float() * _decays(decay)).to(dtype)
    last = decay[..., -1:, :]
    added = ((write * (last - decay).exp()).to(dtype).transpose(-1, -2) @ scaled).float()

    # The state before chunk n is the sum of what the chunks m < n added, decayed over the chunks between.
    total = last.squeeze(-1).cumsum(-2)
    num = total.shape[2]
    before = functional.pad(total, (0, 0, 1, 0))[:, :, :num]
    gone = (before - total.transpose(-1, -2)).masked_fill(
        torch.ones(num, num, device=total.device, dtype=torch.bool).triu(), float("-inf")
    )
    states = (gone.exp() @ added.flatten(-2)).unflatten(-1, added.shape[-2:]).to(dtype)
    output = _joined(inside @ scaled + (read * decay.exp()).to(dtype) @ states, length)
    return output + (x_BTHP * skip_H.unsqueeze(-1)).to(dtype)


def _chunked(x_BTHD: Tensor, length: int) -> Tensor:
    """[B, T, H, D] as [B, H, N, C, D], zeros behind the end."""
    # Padding by nothing is skipped: compiled, its derivative has other strides than it is traced with.
    padded = functional.pad(x_BTHD, (0, 0, 0, 0, 0, -length % CHUNK)) if length % CHUNK else x_BTHD
    return padded.unflatten(1, (-1, CHUNK)).permute(0, 3, 1, 2, 4)


def _joined(x_BHNCD: Tensor, length: int) -> Tensor:
    """The inverse of `_chunked`."""
    return x_BHNCD.permute(0, 2, 3, 1, 4).flatten(1, 2)[:, :length].contiguous()


def _decays(decay_BHNC1: Tensor) -> Tensor:
    """exp of what lies between two tokens [B, H, N, C, C]; 0 above the diagonal, where it could overflow."""
    between = decay_BHNC1 - decay_BHNC1.transpose(-1, -2)
    above = torch.ones(CHUNK, CHUNK, device=between.device, dtype=torch.bool).triu(1)
    return between.masked_fill(above, float("-inf")).exp()


def _unit_lower_inverse(lower: Tensor) -> Tensor:
    """(I + L)⁻¹ of strictly lower triangular L [..., C, C], fp32.

    From blocks of one to blocks of C: the inverse of [[A, 0], [L, B]] has −B⁻¹LA⁻¹ at the lower left. (A product of
    I + (−L)^(2^j) is the same number of products, but where keys repeat its powers grow like binomials.) All that is
    made without a graph; the Newton step behind it corrects its rounding and has the inverse's own derivative,
    −(I+L)⁻¹ dL (I+L)⁻¹, in two products.
    """
    size = lower.shape[-1]
    eye = torch.eye(size, device=lower.device, dtype=lower.dtype)
    block = torch.arange(size, device=lower.device)
    with torch.no_grad():
        inverse = eye
        for level in range((size - 1).bit_length()):
            # Rows of the second half of each block of twice the width, columns of its first half.
            of_row, of_column = block[:, None] >> level, block[None, :] >> level
            corner = (of_row == of_column + 1) & (of_column % 2 == 0)
            inverse = inverse - inverse @ torch.where(corner, lower.detach(), 0.0) @ inverse
    return inverse - inverse @ (lower @ inverse + inverse - eye)
