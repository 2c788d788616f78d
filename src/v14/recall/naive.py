"""The plain twin of `votes`: one event, one voter, one token at a time, in fp64. Tests hold the fast one against it."""

import math

import torch

from v14.geometry import Geometry
from v14.recall.voters import Voters
from v14.types import Cue


def share(cue: Cue, keys: torch.Tensor, geometry: Geometry, voters: Voters) -> list[float]:
    """Mean attention share of one event at each voter; keys `[U, T, D]` as `votes.voter_keys` gives them."""
    means = []
    key_heads = voters.key_heads(geometry)
    for voter, (layer, head) in enumerate(voters.heads):
        event_keys = keys[key_heads.index((layer, head // geometry.group))].double()
        scale = geometry.layers[geometry.slot(layer)].scaling
        total = 0.0
        for query, context_lse in zip(cue.queries[voter].double(), cue.context_lse[voter].double(), strict=True):
            event_mass = sum(math.exp(float(query @ key) * scale) for key in event_keys)
            total += event_mass / (event_mass + math.exp(float(context_lse)))
        means.append(total / cue.queries.shape[1])
    return means


def vote(cue: Cue, keys: torch.Tensor, geometry: Geometry, voters: Voters, share_floor: float) -> float:
    """The vote of one event."""
    total = 0.0
    found = share(cue, keys, geometry, voters)
    null = share(voters.null, keys, geometry, voters)
    for weight, asked, empty in zip(voters.weights, found, null, strict=True):
        if voters.calibration == "subtract":
            total += weight * (asked - empty)
        else:
            total += weight * math.log((asked + share_floor) / (empty + share_floor))
    return total
