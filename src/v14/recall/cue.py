"""Building a cue from what an engine computed: queries and keys as they left the rotary embedding."""

from collections.abc import Mapping

import torch

from v14.geometry import Geometry
from v14.recall.voters import Voters
from v14.reinstate.rotation import rotate
from v14.types import Cue


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
    On a GPU nothing here waits for it, once each kind of rotation was used.
    """
    num_queries, num_keys = queries.shape[1], keys.shape[1]
    if queries.shape[0] != len(voters.heads) or keys.shape[0] != len(voters.key_heads(geometry)):
        shapes = f"queries {tuple(queries.shape)} and keys {tuple(keys.shape)}"
        raise ValueError(f"{shapes} do not fit {len(voters.heads)} voters")
    if not first_key <= first_query or first_query + num_queries > first_key + num_keys:
        raise ValueError(f"{num_keys} keys from {first_key} do not cover {num_queries} queries from {first_query}")
    query_positions = torch.arange(first_query, first_query + num_queries, device=queries.device)
    distance = query_positions[:, None] - torch.arange(first_key, first_key + num_keys, device=queries.device)
    moved, context_lse = [], []
    for voter, row in enumerate(voters.key_rows(geometry).tolist()):
        layer = geometry.layers[geometry.slot(voters.heads[voter][0])]
        query = queries[voter].float()
        hidden = distance < 0
        if layer.window is not None:
            hidden = hidden | (distance >= layer.window)
        scores = (query @ keys[row].float().T) * layer.scaling
        offered = scores.masked_fill(hidden, -torch.inf).logsumexp(-1)
        if voters.sinks:
            offered = torch.logaddexp(offered, offered.new_full((), voters.sinks[voter]))
        context_lse.append(offered)
        moved.append(rotate(query, layer.rotary, -start))
    return Cue(queries=torch.stack(moved), context_lse=torch.stack(context_lse))


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
