"""The world of the small hybrids, which read only their own generated language: held-out names and values of it."""

import random
from collections.abc import Iterator, Sequence

from benchmarks.recall.chats import Case, Chat, Passage, Turns
from experiments.tiny_hybrid import vocabulary as words
from experiments.tiny_hybrid.relations import Relation
from experiments.tiny_hybrid.stories import Entity, Question, Writer

DOCUMENT_TOKENS = {"line in 2k": 1_800}
QUESTIONS_PER_DOCUMENT = 10
TOKENS_PER_WORD = 1.3
REPLY_SHARE = 0.5
"""How many statements are acknowledged; the models were trained with and without."""

_KINDS = {
    "single fact": "fact",
    "paraphrase": "paraphrase",
    "two-step": "two-step",
    "three-step": "three-step",
    "corrected": "corrected",
    "corrected twice": "corrected",
    "old value": "before",
    "absent": "absent",
}
_CHANGES = {"corrected": 2, "corrected twice": 3, "old value": 2}
_DISTRACTORS = ("fact",) * 5 + ("long-note", "absent") + ("talk",) * 3


class NotingWriter(Writer):
    """Notes the values that it makes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.made: list[str] = []

    def value(self, relation: Relation, entity: Entity) -> str:
        """A new value."""
        self.made.append(super().value(relation, entity))
        return self.made[-1]


class HybridWorld:
    """See `benchmarks.recall.chats.World`.

    Their language has no temporal questions but "before", counts whatever was ever seen, and gives no instructions: it
    has no such rows. One writer tells everything, so that nothing is told twice of one subject.
    """

    rows: tuple[str, ...] = (*_KINDS, "general", *DOCUMENT_TOKENS)

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(f"hybrid {seed}")
        self._writer = NotingWriter(self._draw, "eval")

    def cases(self, row: str, num: int) -> list[Case]:
        """See `World`."""
        if row == "general":
            return [Case(row=row, chats=(), question=said) for said, _ in words.SMALL_TALK[1::2][:num]]
        if row in DOCUMENT_TOKENS:
            sizes = [min(QUESTIONS_PER_DOCUMENT, num - done) for done in range(0, num, QUESTIONS_PER_DOCUMENT)]
            return [case for group, size in enumerate(sizes) for case in self._document(row, group, size)]
        return [self._case(row) for _ in range(num)]

    def distractors(self) -> Iterator[Chat]:
        """See `World`."""
        while True:
            kind = self._draw.choice(_DISTRACTORS)
            if kind == "talk":
                # What was said in passing is not what is asked now.
                said, reply = self._draw.choice(words.SMALL_TALK[::2])
                yield Chat(turns=(("user", said), ("assistant", reply)))
            elif kind == "absent":
                question = self._writer.absent()[-1].asks[-1]
                yield Chat(turns=(("user", question.text), ("assistant", question.reply)))
            else:
                yield from (self._told(item.says) for item in self._writer.by_kind[kind]() if item.says)

    def context(self, passages: Sequence[Passage], question: str) -> Turns:
        """See `World`: turns without replies, which is how these models were shown several statements."""
        return (*(("user", text) for _, text in passages), ("user", question))

    def _told(self, statement: str) -> Chat:
        turns = [("user", statement)]
        if self._draw.random() < REPLY_SHARE:
            turns.append(("assistant", self._draw.choice(words.ACKNOWLEDGEMENTS)))
        return Chat(turns=tuple(turns))

    def _case(self, row: str) -> Case:
        while True:
            self._writer.made.clear()
            story = self._writer.by_kind[_KINDS[row]]()
            question, values = story[-1].asks[-1], list(self._writer.made)
            says = tuple(item.says for item in story if item.says)
            changes = row in _CHANGES
            # "What was it before?" is asked behind another question, which a new chat does not have.
            if not changes or (len(says) == _CHANGES[row] == len(set(values)) and len(story[-1].asks) == 1):
                break
        # Two chains may be told together; a reply names the values on the way of the one that is asked for.
        way = [value for value in values if value in question.reply]
        needed = tuple(text for text in says if any(value in text for value in way))
        return Case(
            row=row,
            chats=tuple(self._told(text) for text in says),
            question=question.text,
            accepted=() if row == "absent" else (question.value,),
            needed=needed,
            refused=tuple(value for value in values if value != question.value) if changes else (),
        )

    def _document(self, row: str, group: int, num: int) -> list[Case]:
        lines: list[str] = []
        questions: list[Question] = []
        while len(questions) < num:
            story = self._writer.fact(paraphrase=False)
            lines.append(story[0].says)
            questions.append(story[-1].asks[-1])
        body: list[str] = []
        while sum(len(text.split()) for text in body) * TOKENS_PER_WORD < DOCUMENT_TOKENS[row]:
            body.append(self._writer.long_note()[0].says)
        for number, line in reversed(list(enumerate(lines))):
            body.insert(len(body) * (2 * number + 1) // (2 * len(lines)), line)
        chat = Chat(turns=(("user", " ".join(body)),))
        return [
            Case(row=row, chats=(chat,), question=q.text, accepted=(q.value,), needed=(line,), group=group)
            for line, q in zip(lines, questions, strict=True)
        ]
