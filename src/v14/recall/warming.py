"""Compiling what votes take on a GPU before the first request, which would wait some seconds for it."""

import logging
import time

import torch

from v14.geometry import Geometry
from v14.kernels.votes import event_shares, tally
from v14.recall.asking import Asking
from v14.recall.coding import Code, KeyForm
from v14.recall.pool import Pool
from v14.recall.shortlist import Shortlist
from v14.recall.voters import Voters
from v14.recall.votes import SHARE_FLOOR, scalings
from v14.types import Cue

logger = logging.getLogger("v14")

FORMS: tuple[KeyForm, ...] = ("bfloat16", "int8")

CUES = (1, 64)
"""Lengths of cues, in tokens, for which kernels differ."""


def warm(geometry: Geometry, voters: Voters, device: torch.device) -> None:
    """Vote once on an event without meaning, in each form and with each length of cue."""
    begun = time.perf_counter()
    rows, dim, num_voters = len(voters.key_heads(geometry)), geometry.head_dim, len(voters.heads)
    for form in FORMS:
        code = Code(form=form, device=device)
        pool = Pool(rows, dim, num_voters, code)
        pool.append(["warm"], torch.zeros(rows, 1, dim, device=device), [1])
        (page,) = pool.pages
        shortlist = Shortlist(voters, voters.key_rows(geometry).tolist(), device)
        if shortlist.sketch is not None:
            pool.begin_sketches(shortlist.sketches)
        asking = Asking(voters.key_rows(geometry), scalings(geometry, voters), code)
        every = torch.arange(num_voters, dtype=torch.int32, device=device)
        for num_tokens in CUES:
            cue = Cue(queries=torch.zeros(num_voters, num_tokens, dim), context_lse=torch.zeros(num_voters, num_tokens))
            plain = asking.plain(cue)
            asked = asking.coded(plain)
            if page.sketches is not None:
                chosen = shortlist.asked(plain.queries, plain.context, asked)
                event_shares(page.sketches, None, page.starts[:1], page.lengths[:1], chosen)
            shares = event_shares(page.keys, page.scales, page.starts[:1], page.lengths[:1], asked)
            for slots in (None, torch.zeros(1, dtype=torch.int64, device=device)):
                floor = SHARE_FLOOR if voters.calibration == "log-ratio" else None
                tally(shares, page.null_shares, page.lengths, slots, every, every.float(), floor)
    torch.cuda.synchronize(device)
    logger.info("votes on %s are ready after %.1f s", device, time.perf_counter() - begun)
