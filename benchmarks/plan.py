"""What a plan costs beside its votes: milliseconds of `make_plan` on one core, by number of events and by their kind.

    python -m benchmarks.plan [--plans 20] [--events 100 10000 100000]

Statements are of 16 tokens, pieces of documents of 128, half of them out of a hundred, half out of five thousand. Each
question holds eight tokens of some event, and every event has a vote; links are followed.
"""

import argparse
import random
import statistics
import time

from v14.config import Options
from v14.recall.doubt import Doubt
from v14.recall.lexicon import Lexicon
from v14.recall.plan import make_plan
from v14.recall.weighing import MAX_WEIGHED
from v14.recall.wording import Wording
from v14.types import Event, Vote

LENGTHS = {"statements": 16, "pieces of documents": 128}
NUM_WORDS = 5_000
COMMON = 100
"""Words that half of all text is made of."""

DOUBT = Doubt(vote=1.0, names=1.0, words=1.0, missing=-1.0, phrase=1.0, bar=0.0)
OPTIONS = Options(recall_floor=1.0, recall_linked=0.0)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=20)
    parser.add_argument("--events", type=int, nargs="+", default=[100, 10_000, 100_000])
    arguments = parser.parse_args()
    for kind, length in LENGTHS.items():
        for num_events in arguments.events:
            print(f"{kind}, {num_events:,} events: {measured(num_events, length, arguments.plans):.1f} ms", flush=True)


def measured(num_events: int, length: int, num_plans: int) -> float:
    """Median milliseconds of processor time of a plan."""
    draw = random.Random(num_events)
    lexicon, events = Lexicon(), {}
    for number in range(num_events):
        words = [draw.randrange(COMMON if draw.random() < 0.5 else NUM_WORDS) for _ in range(length)]
        event = Event(namespace="n", chat_id=str(number), role="user", said_at=float(number), token_ids=tuple(words))
        events[event.id] = event
        lexicon.add(event.id, event.body)
    ids = list(events)
    times = []
    for _ in range(num_plans):
        about = events[draw.choice(ids)].body
        prompt = [*about[:4], *draw.choices(about, k=4), *(draw.randrange(COMMON) for _ in range(12))]
        best = draw.sample(ids, min(MAX_WEIGHED, len(ids)))
        ranked = [Vote(event_id=event_id, value=3 - place / 64) for place, event_id in enumerate(best)]
        begin = time.process_time()
        make_plan(
            ranked,
            lambda asked: [events[event_id] for event_id in asked],
            OPTIONS,
            prompt,
            1 << 20,
            wording=Wording([lexicon], prompt),
            votes=lambda asked: dict.fromkeys(asked, 1.0),
            doubt=DOUBT,
        )
        times.append(time.process_time() - begin)
    return 1e3 * statistics.median(times)


if __name__ == "__main__":
    main()
