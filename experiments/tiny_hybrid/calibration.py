"""A calibration set in the small models' own language, for `v14 upgrade --calibration`.

    python -m experiments.tiny_hybrid.calibration OUT.json [--seed 0]

Names and values are those of training, none of an evaluation. The package's own set is of general English, which
models that have only ever read generated chats do not read well. As there, a second part says how sure a plan has to
be: questions in it ask for facts, for what a fact leads to, and for what nothing was told of.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

from experiments.tiny_hybrid import vocabulary as words
from experiments.tiny_hybrid.stories import Writer

NUM_FACTS = 90
NUM_IN_VAIN = 20
DOUBTED = {"fact": 55, "paraphrase": 55, "two-step": 24, "absent": 110}
"""Stories of the second part."""
REPLY_SHARE = 0.5
"""A reply is in the store only if its chat went on and was read again."""


def calibration_set(seed: int) -> dict[str, Any]:
    """The set, as `v14.upgrade.calibration.own` reads it: facts, corrected facts, questions in vain, small talk."""
    draw = random.Random(f"calibration {seed}")
    writer = Writer(draw, "train")
    chats: list[dict[str, Any]] = []
    questions: list[dict[str, Any]] = []
    for fact in range(NUM_FACTS):
        story = writer.by_kind[draw.choice(("fact", "paraphrase", "paraphrase", "corrected"))]()
        for says in (item.says for item in story if item.says):
            turns = [("user", says)]
            if draw.random() < REPLY_SHARE:
                turns.append(("assistant", draw.choice(words.ACKNOWLEDGEMENTS)))
            chats.append({"turns": turns, "fact": fact})
        questions.append({"text": story[-1].asks[-1].text, "fact": fact, "held_out": bool(fact % 2)})
    for _ in range(NUM_IN_VAIN):
        chats.append({"turns": [("user", writer.absent()[-1].asks[-1].text)]})
    # What was said in passing is not what is asked now.
    talks = draw.sample(words.SMALL_TALK, len(words.SMALL_TALK))
    for number, (said, reply) in enumerate(talks):
        if number % 2:
            chats.append({"turns": [("user", said), ("assistant", reply)]})
        else:
            questions.append({"text": said, "fact": None, "held_out": bool(number % 4)})
    draw.shuffle(chats)
    return {"chats": chats, "questions": questions, "null": "N/A", "doubts": _doubts(seed)}


def _doubts(seed: int) -> dict[str, Any]:
    """The second part: other stories, by another writer."""
    draw = random.Random(f"doubts {seed}")
    writer = Writer(draw, "train")
    chats: list[dict[str, Any]] = []
    questions: list[dict[str, Any]] = []
    num_facts = 0
    for kind, num in DOUBTED.items():
        for _ in range(num):
            story = writer.by_kind[kind]()
            asked = story[-1].asks[-1]
            # Two chains may be told together; a reply names the values on the way of the one that is asked for.
            way = asked.reply.rstrip(".").split(", so ")
            told = [(item.says, any(value in item.says for value in way)) for item in story if item.says]
            own = []
            for says, needed in told:
                chat: dict[str, Any] = {"turns": [("user", says)]}
                if draw.random() < REPLY_SHARE:
                    chat["turns"].append(("assistant", draw.choice(words.ACKNOWLEDGEMENTS)))
                if needed:
                    chat["fact"] = num_facts
                    own.append((way.index(next(value for value in way if value in says)), num_facts))
                    num_facts += 1
                chats.append(chat)
            question = {"text": asked.text, "held_out": True, "stranger": kind == "absent"}
            if own:
                facts = [fact for _, fact in sorted(own)]
                question |= {"fact": facts[0]} | ({"then": facts[1]} if len(facts) > 1 else {})
            questions.append(question)
    for number, (said, reply) in enumerate(words.SMALL_TALK):
        if number % 2:
            chats.append({"turns": [("user", said), ("assistant", reply)]})
        else:
            questions.append({"text": said, "held_out": True})
    draw.shuffle(chats)
    return {"chats": chats, "questions": questions}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.write_text(json.dumps(calibration_set(arguments.seed), indent=1) + "\n")


if __name__ == "__main__":
    main()
