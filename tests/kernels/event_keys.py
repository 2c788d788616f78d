"""Random keys of events that lie here and there, with NaN (where there is such a number) between them."""

import torch

from v14.kernels.votes import Asked

ROWS = (0, 2, 2, 1, 0)


def case(kind, lengths, num_queries, dim, strength=1.0, device="cpu"):
    """The arguments of `event_shares`: three rows, five voters; `kind` of the keys; `strength` of the scores."""
    random = torch.Generator().manual_seed(sum(lengths) + num_queries + dim)
    gaps = torch.randint(0, 3, (len(lengths) + 1,), generator=random).tolist()
    starts, at = [], gaps[0]
    for length, gap in zip(lengths, gaps[1:], strict=True):
        starts.append(at)
        at += length + gap
    keys = torch.randn(3, at + 2, dim, generator=random)
    scales = None
    if kind == "sketch":
        keys = (30 * keys).round().clamp(-127, 127).to(torch.int8)
        strength /= 30
    elif kind == "int8":
        scales = keys.abs().amax(-1) / 127
        keys = (keys / scales[..., None]).round().to(torch.int8)
        scales = scales.half()
    else:
        keys = keys.to({"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[kind])
    covered = torch.zeros(at + 2, dtype=torch.bool)
    for start, length in zip(starts, lengths, strict=True):
        covered[start : start + length] = True
    if kind == "sketch":
        keys[:, ~covered] = 127
    elif scales is None:
        keys[:, ~covered] = torch.nan
    else:
        scales[:, ~covered] = torch.nan
    asked = Asked(
        queries=strength * dim**-0.5 * torch.randn(len(ROWS), num_queries, dim, generator=random),
        context=1 + torch.randn(len(ROWS), num_queries, generator=random),
        rows=torch.tensor(ROWS, dtype=torch.int32),
        inverse=torch.tensor([1 / num_queries]),
    )
    given = (keys, scales, torch.tensor(starts), torch.tensor(lengths, dtype=torch.int32))
    moved = [None if tensor is None else tensor.to(device) for tensor in given]
    return (*moved, Asked(*(tensor.to(device) for tensor in asked)))


def tally_case(num_events, floor, *, picked, device="cpu"):
    """The arguments of `tally`: three of five voters, a page with room left, a fifth of the events removed."""
    random = torch.Generator().manual_seed(num_events)
    slots = torch.randperm(num_events, generator=random)[: num_events // 2] if picked else None
    null_shares = torch.rand(5, num_events + 7, generator=random)
    null_shares[:, num_events:] = torch.nan
    lengths = torch.randint(0, 5, (num_events + 7,), generator=random, dtype=torch.int32)
    shares = torch.rand(3, num_events // 2 if picked else num_events, generator=random)
    voters, weights = torch.tensor([0, 2, 4], dtype=torch.int32), torch.randn(5, generator=random)
    arguments = (shares, null_shares, lengths, slots, voters, weights)
    return (*(None if tensor is None else tensor.to(device) for tensor in arguments), floor)
