"""Votes: the calibrated share of a cue's attention that an event would take if it stood directly in front.

For voter v and cue token t, with scaled scores s of the event's keys and the log-sum-exp c of all keys that the prompt
itself gives that token, the event would take the share

    exp(lse(s)) / (exp(lse(s)) + exp(c))  =  m / (1 + m)   with   m = sum exp(s - c)

of the head's attention: the softmax over the concatenation, without computing it. Shares are averaged over the cue's
tokens, the share of a content-free cue is removed, and the voters' values are summed with their weights. Calibrating
retrieval by a content-free query follows in-context re-ranking (arXiv 2410.02642), picking heads QRHead (arXiv
2506.09944).

A window of a sliding layer limits what the prompt itself offers (`context_lse`), not the event: placed directly in
front it is inside the window of the first tokens, and a vote asks what an event is about, not how far away it is.

Shapes: see `v14.types`; besides, U rows of voter keys, N events.
"""

from collections.abc import Sequence

import torch

from v14.geometry import AttentionLayer, Geometry
from v14.recall.voters import Voters
from v14.reinstate.rotation import rotate

SHARE_FLOOR = 0.01
"""Added to both shares of a log-ratio: differences far below a hundredth of the attention must not decide."""

CALIBRATIONS = ("subtract", "log-ratio")


def voter_keys(
    keys_of_layers: Sequence[torch.Tensor] | torch.Tensor,
    geometry: Geometry,
    voters: Voters,
    lengths: Sequence[int] | None = None,
) -> torch.Tensor:
    """The keys that voters read of events, `[U, T, D]` fp32, rotated so that each event ends at position 0.

    `keys_of_layers` are S tensors `[T, H, D]`, the keys at `voters.slots` of one event, or of several behind each
    other with `lengths` that add up to T, each rotated as if it began at position 0. Token j of an event of n tokens
    then stands at j - n: directly in front of a part whose first token is at position 0.
    """
    places = {layer: place for place, layer in enumerate(voters.layers)}
    if len(keys_of_layers) != len(places) or keys_of_layers[0].dim() != 3:
        shapes = [tuple(keys.shape) for keys in keys_of_layers]
        raise ValueError(f"keys {shapes} must be S times [T, H, D] with S = {len(places)} voter layers")
    first = keys_of_layers[0]
    moves: int | torch.Tensor = -len(first)
    if lengths is not None:
        each = torch.tensor(lengths)
        moves = -each.repeat_interleave(each)
        moves = moves.pin_memory().to(first.device, non_blocking=True) if first.is_cuda else moves
    heads: dict[int, list[int]] = {}
    for layer, head in voters.key_heads(geometry):
        heads.setdefault(layer, []).append(head)
    rows = [
        rotate(keys_of_layers[places[layer]][:, of].float(), _layer(geometry, layer).rotary, moves)
        for layer, of in heads.items()
    ]
    return torch.cat(rows, dim=1).transpose(0, 1).contiguous()


def scalings(geometry: Geometry, voters: Voters) -> tuple[float, ...]:
    """What multiplies q·k at each voter."""
    return tuple(_layer(geometry, layer).scaling for layer, _ in voters.heads)


def calibrate(share: torch.Tensor, null_share: torch.Tensor, calibration: str) -> torch.Tensor:
    """A share with the content-free cue's share removed: a difference, or the natural log of the ratio
    of the two, each with `SHARE_FLOOR` added."""
    if calibration == "subtract":
        return share - null_share
    if calibration == "log-ratio":
        return (share + SHARE_FLOOR).log() - (null_share + SHARE_FLOOR).log()
    raise ValueError(f"unknown calibration {calibration!r}; there are {', '.join(CALIBRATIONS)}")


def votes(share: torch.Tensor, null_share: torch.Tensor, voters: Voters) -> torch.Tensor:
    """Votes `[N]` from shares and null shares `[N, V]`."""
    return calibrate(share, null_share, voters.calibration) @ torch.tensor(voters.weights)


def _layer(geometry: Geometry, layer_index: int) -> AttentionLayer:
    return geometry.layers[geometry.slot(layer_index)]
