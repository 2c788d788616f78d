"""Which statement another one corrects: a link with a score, that a plan may follow and anybody may take out.

    old     The vet of Loradan Gresstad is Wilolin Lambmere.
    new     News: the vet of Loradan Gresstad is Marnova Eskwell.

A later statement says something else of the same thing when it has nearly all of what is rare in the old one, but for
one run of tokens (the value), and a run of its own. That alone does not tell a correction from the next thing of a
series ("she brought a kite", "she brought a drum"), so the score is halved unless the later statement says that
something changed.
"""

from collections.abc import Callable, Collection, Sequence

from v14.recall.rarity import RARE
from v14.recall.terms import Overlap, pair
from v14.types import Event, Link

MAX_COMPARED = 16
"""How many of the events that share most with a new one are compared with it."""

LEAST_SHARED = 3.0
"""Least rarity, in all, of what both share."""

MAX_TOKENS = 64
"""Longer events are pieces of documents, no statements."""

LEAST_SCORE = 0.4
"""Least score of a link."""

UNSAID = 0.5
"""What a score is multiplied with where the later statement does not say that anything changed."""


def corrections(
    event: Event,
    overlap: Overlap,
    lookup: Callable[[str], Event | None],
    says_change: Callable[[Sequence[int]], bool],
) -> list[Link]:
    """Links between a user's statement and others about the same thing, from the later one to the earlier.

    `overlap` is that of a question without words; `lookup` gives an event by id, None for one that is not there.
    """
    links: list[Link] = []
    if len(event.body) > MAX_TOKENS:
        return links
    for other_id in _nearest(event, overlap):
        other = lookup(other_id)
        if other is None or other.role != event.role or other.said_at == event.said_at or len(other.body) > MAX_TOKENS:
            continue
        old, new = sorted((event, other), key=lambda each: each.said_at)
        score = covered(old, new, overlap) * (1.0 if says_change(new.body) else UNSAID)
        if score >= LEAST_SCORE:
            links.append(Link(source=new.id, target=old.id, kind="supersedes", weight=round(score, 3)))
    return links


def covered(old: Event, new: Event, overlap: Overlap) -> float:
    """How much of what is rare in an old statement a new one has, 0 to 1, but for the heaviest run that it has not; 0
    where neither says anything of its own, or that run is more than what both have."""
    shared = overlap.terms(old.id) & overlap.terms(new.id)
    common = _weight(shared, overlap)
    own, value = (_runs(overlap.sequence(each.id), shared, overlap) for each in (old, new))
    if common < LEAST_SHARED or not own or not value or max(own) > common:
        return 0.0
    return common / (common + sum(own) - max(own))


def _nearest(event: Event, overlap: Overlap) -> list[str]:
    rare = (term for term in overlap.terms(event.id) if term < 0 and overlap.rarity(term) >= RARE)
    shared: dict[str, float] = {}
    for term in rare:
        for other in overlap.holders(term):
            if other != event.id:
                shared[other] = shared.get(other, 0.0) + overlap.rarity(term)
    return sorted(shared, key=lambda other: (-shared[other], other))[:MAX_COMPARED]


def _runs(tokens: Sequence[int], shared: Collection[int], overlap: Overlap) -> list[float]:
    """Rarities of the runs of neighbours that are not shared, as far as anything in them is rare."""
    runs = [0.0]
    before: int | None = None
    for token in tokens:
        if token in shared:
            runs.append(0.0)
        else:
            terms = (token,) if before is None else (token, pair(before, token))
            runs[-1] += _weight(terms, overlap)
        before = token
    return [weight for weight in runs if weight > 0]


def _weight(terms: Collection[int], overlap: Overlap) -> float:
    """Rarities of the rare ones, each at most 1: what one event has alone is no rarer here than what two have."""
    return sum(min(1.0, rarity) for term in terms if (rarity := overlap.rarity(term)) >= RARE)
