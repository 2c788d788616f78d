"""Building a cue from what an engine computed: queries and keys as they left the rotary embedding."""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import torch

from v14.geometry import Geometry, Rotary
from v14.recall.voters import Voters
from v14.reinstate.rotation import rotate
from v14.types import Cue

CHUNK = 1 << 25
"""Numbers (scores and keys, fp32) that one step takes beside its inputs."""


def build_cue(
    queries: torch.Tensor,
    keys: torch.Tensor,
    geometry: Geometry,
    voters: Voters,
    *,
    first_query: int,
    start: int,
    first_key: int = 0,
) -> Cue:
    """The cue of a prompt's new part, in fp32.

    queries: `[V, Q, D]`, the voters' queries of consecutive tokens from absolute position `first_query` on; keys:
    `[U, P, D]`, the prompt's own keys at the voters' KV heads (`Voters.key_heads`) from absolute position `first_key`
    on. Both as the rotary embedding left them. `start` is the absolute position of the new part's first token; it
    becomes position 0. Every query must find at least itself among the keys. A voter's sink counts as one more key.
    On a GPU nothing here waits for it but the first call, and voters of
    one kind of layer are one product.
    """
    num_queries, num_keys = queries.shape[1], keys.shape[1]
    if queries.shape[0] != len(voters.heads) or keys.shape[0] != len(voters.key_heads(geometry)):
        shapes = f"queries {tuple(queries.shape)} and keys {tuple(keys.shape)}"
        raise ValueError(f"{shapes} do not fit {len(voters.heads)} voters")
    if not first_key <= first_query or first_query + num_queries > first_key + num_keys:
        raise ValueError(f"{num_keys} keys from {first_key} do not cover {num_queries} queries from {first_query}")
    device = queries.device
    query_positions = torch.arange(first_query, first_query + num_queries, device=device)
    distance = query_positions[:, None] - torch.arange(first_key, first_key + num_keys, device=device)
    moved, context_lse, places = [], [], []
    for kind, alike, rows, sinks in _groups(voters, geometry, device):
        hidden = distance < 0
        if kind.window is not None:
            hidden = hidden | (distance >= kind.window)
        bias = torch.zeros(1, num_queries, num_keys, device=device).masked_fill_(hidden, -torch.inf)
        # Voters at once: as many as keep scores and keys at some hundred megabytes.
        step = max(1, CHUNK // (num_keys * (num_queries + queries.shape[2])))
        for first in range(0, len(alike), step):
            some = slice(first, first + step)
            asked, offered = queries[alike[some]].float(), keys[rows[some]].float()
            scores = torch.baddbmm(bias, asked, offered.transpose(1, 2), alpha=kind.scaling)
            context_lse.append(torch.logaddexp(scores.logsumexp(-1), sinks[some]))
            moved.append(rotate(asked, kind.rotary, -start))
        places.append(alike)
    back = torch.empty(len(voters.heads), dtype=torch.int64, device=device)
    order = torch.cat(places)
    back[order] = torch.arange(len(order), device=device)
    return Cue(queries=torch.cat(moved)[back], context_lse=torch.cat(context_lse)[back])


class _Kind(NamedTuple):
    """What layers share whose voters are computed together."""

    rotary: Rotary | None
    window: int | None
    scaling: float


@lru_cache(maxsize=16)
def _groups(
    voters: Voters, geometry: Geometry, device: torch.device
) -> tuple[tuple[_Kind, torch.Tensor, torch.Tensor, torch.Tensor], ...]:
    """Voters by kind: their numbers `[G]`, their rows of keys `[G]` and their sinks `[G, 1]` (−inf for none)."""
    groups: dict[_Kind, list[int]] = {}
    for voter, (index, _) in enumerate(voters.heads):
        layer = geometry.layers[geometry.slot(index)]
        groups.setdefault(_Kind(layer.rotary, layer.window, layer.scaling), []).append(voter)
    rows = voters.key_rows(geometry)
    sinks = torch.tensor(voters.sinks or [-math.inf] * len(voters.heads))[:, None]
    return tuple(
        (kind, torch.tensor(alike, device=device), rows[alike].to(device), sinks[alike].to(device))
        for kind, alike in groups.items()
    )


def gather(
    queries: Mapping[int, torch.Tensor], keys: Mapping[int, torch.Tensor], geometry: Geometry, voters: Voters
) -> tuple[torch.Tensor, torch.Tensor]:
    """The voters' `[V, Q, D]` queries and `[U, P, D]` keys from whole layers, by model layer index.

    `queries` are `[Q, num_heads, D]` and `keys` `[P, num_kv_heads, D]` of each layer where voters sit.
    """
    return (
        torch.stack([queries[layer][:, head] for layer, head in voters.heads]),
        torch.stack([keys[layer][:, head] for layer, head in voters.key_heads(geometry)]),
    )
