"""Compiling what votes take on a GPU before the first request, which would wait some seconds for it."""

import logging
import time

import torch

from v14.geometry import Geometry
from v14.recall.asking import Asking
from v14.recall.coding import Code, KeyForm
from v14.recall.pool import Pool
from v14.recall.scanning import Scanner
from v14.recall.shortlist import Shortlist
from v14.recall.voters import Voters
from v14.recall.votes import scalings
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
        shortlist = Shortlist(voters, voters.key_rows(geometry).tolist(), device)
        if shortlist.sketch is not None:
            pool.begin_sketches(shortlist.sketches)
        asking = Asking(voters.key_rows(geometry), scalings(geometry, voters), dim, code)
        scanner = Scanner(pool, voters)
        for num_tokens in CUES:
            cue = Cue(queries=torch.zeros(num_voters, num_tokens, dim), context_lse=torch.zeros(num_voters, num_tokens))
            plain = asking.plain(cue)
            asked = asking.coded(plain)
            scanner.votes(shortlist.panel(plain, asked, sketched=pool.is_sketched))
            scanner.votes(scanner.everybody(asked))
            scanner.picked(scanner.everybody(asked), torch.zeros(1, dtype=torch.int64, device=device))
    torch.cuda.synchronize(device)
    logger.info("votes on %s are ready after %.1f s", device, time.perf_counter() - begun)
