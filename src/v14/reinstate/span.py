"""Building a span: stored events set one behind the other, their keys turned to the positions they come to stand at."""

from collections.abc import Sequence

import torch

from v14.geometry import Geometry
from v14.reinstate.rotation import move_keys
from v14.types import Event, Span, Trace


def build_span(
    events: Sequence[Event],
    traces: Sequence[Trace],
    geometry: Geometry,
    position: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> Span:
    """The span of `events` whose first token stands at `position`; each event begins where the one before it ends.

    Keys are turned in fp32 from position 0 of their event (where a `Trace` keeps them) straight to their place and
    rounded once, to `dtype` (default: the traces' own). `traces[i]` belongs to `events[i]`. Raises `ValueError` for an
    empty span, or when a trace does not have its event's tokens or the model's layers and heads.
    """
    if not events:
        raise ValueError("a span holds at least one event")
    keys, values = [], []
    begin = position
    for event, trace in zip(events, traces, strict=True):
        expected = (len(geometry.layers), event.num_tokens, geometry.num_kv_heads, geometry.head_dim)
        if trace.keys.shape != expected:
            raise ValueError(
                f"trace of {event.id} is {tuple(trace.keys.shape)}, its event and model ask for {expected}"
            )
        out = dtype or trace.keys.dtype
        keys.append(move_keys(trace.keys.to(device).float(), geometry, begin).to(out))
        values.append(trace.values.to(device, out))
        begin += event.num_tokens
    return Span(
        position=position,
        token_ids=tuple(token for event in events for token in event.token_ids),
        keys=torch.cat(keys, dim=1),
        values=torch.cat(values, dim=1),
        engrams=tuple(trace.engram for trace in traces) if geometry.recurrent is not None else (),
    )
