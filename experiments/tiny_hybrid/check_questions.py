"""Questions in the small models' own language, for `v14 check --questions`.

    python -m experiments.tiny_hybrid.check_questions SEED OUT.json

Names and values are those that training and calibration never show, sentences those of training. Small talk, of which
there is only one list, is what training and calibration have, too.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

from experiments.tiny_hybrid import vocabulary as words
from experiments.tiny_hybrid.relations import Relation
from experiments.tiny_hybrid.stories import Entity, Writer, sentence
from v14.check.scoring import contains

NUM_FACTS = 30
NUM_SPARE = 20
NUM_UNRELATED = 10
NUM_CHATS = 40
NUM_RELATED = 6
"""Of facts corrected once, of those corrected twice, and of two steps."""
NUM_PASSAGES = 120


class Asker:
    """Makes the parts. One writer tells everything, so that nothing is told twice of one subject."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(f"check {seed}")
        self.writer = Writer(self.draw, "eval")
        self.taken: set[str] = set()

    def fact(self) -> dict[str, str]:
        """A fact with its question, and in other words."""
        entity, relation = self.writer.pick()
        direct, reworded = (self.writer.question(relation, entity.phrase, paraphrase=other) for other in (False, True))
        value = self._value(relation, entity, direct, reworded)
        statement = sentence(self.writer.state(relation, entity.phrase, value))
        return {"statement": statement, "question": direct, "reworded": reworded, "value": value}

    def corrected(self, num_values: int) -> dict[str, Any]:
        """A fact and its corrections, asked for what holds at last."""
        entity, relation = self.writer.pick()
        question = self.writer.question(relation, entity.phrase, paraphrase=False)
        values = [self._value(relation, entity, question) for _ in range(num_values)]
        statements = [sentence(self.writer.state(relation, entity.phrase, values[0]))]
        statements += [self.writer.correcting(relation, entity, value) for value in values[1:]]
        return {"statements": statements, "question": question, "values": values}

    def two_step(self) -> dict[str, Any]:
        """Two facts, the second about the value of the first."""
        while True:
            *told, asking = self.writer.chain(2)
            asked = asking.asks[-1]
            # Two chains may be told together.
            if len(told) == 2 and not contains(asked.text, [asked.value]) and self._is_new(asked.value):
                return {"statements": [item.says for item in told], "question": asked.text, "value": asked.value}

    def chats(self) -> list[str]:
        """What is said in other chats: small talk, notes, questions about what nobody told."""
        talk = [said for said, _ in words.SMALL_TALK[::2]]
        others = [self.writer.absent()[-1].asks[-1].text for _ in range((NUM_CHATS - len(talk)) // 2)]
        notes = [self.writer.long_note()[0].says for _ in range(NUM_CHATS - len(talk) - len(others))]
        return self.draw.sample(talk + others + notes, NUM_CHATS)

    def unrelated(self) -> list[dict[str, Any]]:
        """Small talk with its replies."""
        talk = self.draw.sample(words.SMALL_TALK[1::2], NUM_UNRELATED)
        return [{"question": said, "accepted": [reply.rstrip(".!?")]} for said, reply in talk]

    def _value(self, relation: Relation, entity: Entity, *questions: str) -> str:
        """A value that nothing else has and no question names."""
        while True:
            value = self.writer.value(relation, entity)
            if not any(contains(question, [value]) for question in questions) and self._is_new(value):
                return value

    def _is_new(self, value: str) -> bool:
        if value.casefold() in self.taken:
            return False
        self.taken.add(value.casefold())
        return True


def check_questions(seed: int) -> dict[str, Any]:
    """The file, as `v14.check.own` reads it."""
    asker = Asker(seed)
    return {
        "facts": [asker.fact() for _ in range(NUM_FACTS)],
        "spare_facts": [asker.fact() for _ in range(NUM_SPARE)],
        "unrelated": asker.unrelated(),
        "chats": asker.chats(),
        "corrected": [asker.corrected(num) for num in (2, 3) for _ in range(NUM_RELATED)],
        "two_step": [asker.two_step() for _ in range(NUM_RELATED)],
        "passages": [asker.writer.long_note()[0].says for _ in range(NUM_PASSAGES)],
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    questions = check_questions(arguments.seed)
    arguments.out.write_text(json.dumps(questions, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
