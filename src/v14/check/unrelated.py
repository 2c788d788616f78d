"""What has nothing to do with the facts told: general questions with known answers, chats, and a long text."""

import random
from collections import defaultdict
from dataclasses import dataclass

from v14.check.data import lines


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question that small models answer, with the words of which a right answer contains one."""

    text: str
    accepted: tuple[str, ...]


def questions(seed: int, num_questions: int = 10) -> list[Question]:
    """General questions, chosen by the seed."""
    chosen = random.Random(f"questions {seed}").sample(lines("questions"), num_questions)
    pairs = [line.split(" | ") for line in chosen]
    return [Question(text=text, accepted=tuple(accepted.split(", "))) for text, accepted in pairs]


def chats(seed: int, num_chats: int = 40) -> list[str]:
    """First messages of chats about other things, chosen by the seed."""
    return random.Random(f"chats {seed}").sample(lines("chats"), num_chats)


def long_text(seed: int, middle: str, num_words: int = 1740) -> str:
    """A description of a landscape of about `num_words` words (1.3 tokens each) with `middle` in the middle of it."""
    rng = random.Random(f"text {seed}")
    choices = defaultdict(list)
    for line in lines("landscape"):
        kind, _, text = line.partition(": ")
        choices[kind].append(text)
    sentences: list[str] = []
    words = 0
    while words < num_words:
        drawn = {kind: rng.choice(texts) for kind, texts in choices.items()}
        sentence = drawn.pop("sentence").format(**drawn)
        words += len(sentence.split())
        sentences.append(sentence)
    sentences.insert(len(sentences) // 2, middle)
    return " ".join(sentences)
