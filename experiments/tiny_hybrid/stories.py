"""Stories: what is told about one subject in the course of a chat, and the questions about it with their answers."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from experiments.tiny_hybrid import vocabulary as words
from experiments.tiny_hybrid.names import Split, Values, pseudo_word
from experiments.tiny_hybrid.relations import BY_SUBJECT, CALLED, LINKING, PLANS, Relation, own, trait

Templates = Literal["seen", "held-out"]

KINDS = ("fact", "paraphrase", "corrected", "before", "two-step", "three-step", "count", "absent", "long-note")
"""Kinds of questions."""

NAMED = ("person", "thing", "animal", "place", "company", "region")
_NOUNS = {"person": words.PEOPLE, "thing": words.THINGS, "animal": words.ANIMALS, "event": words.EVENTS}
_ENTITY_KINDS = ("person",) * 6 + ("thing",) * 7 + ("animal",) * 2 + ("event",) * 2 + ("place", "company")
_SAME = {"hidden": "stands"}
"""Relations that one question could mean."""
_TRAIT_VALUES = ("label", "label", "person", "place", "number", "code", "password")


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked, the reply, its kind, and the value that a right reply contains."""

    text: str
    reply: str
    kind: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Item:
    """A statement, or questions that are asked one directly after the other."""

    says: str = ""
    asks: tuple[Question, ...] = ()
    alone: bool = False
    """A turn of its own."""


@dataclass(frozen=True)
class Entity:
    """Somebody or something, by a noun or by a name."""

    kind: str
    phrase: str
    is_name: bool = False


def sentence(text: str) -> str:
    """With a capital letter."""
    return text[0].upper() + text[1:]


@dataclass
class Writer:
    """Writes the stories of one chat; nothing is told twice of the same subject but in a correction."""

    draw: random.Random
    split: Split
    templates: Templates = "seen"
    told: set[tuple[str, str]] = field(default_factory=set)
    heads: dict[str, set[str]] = field(default_factory=dict)
    entities: list[Entity] = field(default_factory=list)
    counted: bool = False

    def __post_init__(self) -> None:
        self.values = Values(self.draw, self.split)
        self.by_kind: dict[str, Callable[[], list[Item]]] = {
            "fact": lambda: self.fact(paraphrase=False),
            "paraphrase": lambda: self.fact(paraphrase=True),
            "corrected": lambda: self.corrected(before=False),
            "before": lambda: self.corrected(before=True),
            "two-step": lambda: self.chain(2),
            "three-step": lambda: self.chain(3),
            "count": self.count,
            "absent": self.absent,
            "long-note": self.long_note,
        }

    # What is spoken of

    def entity(self, kind: str = "", *, named: bool | None = None) -> Entity:
        """A new subject of a kind."""
        draw = self.draw
        kind = kind or draw.choice(_ENTITY_KINDS)
        if named is None:
            named = kind in ("place", "company", "region") or (kind == "person" and draw.random() < 0.3)
        if named:
            return Entity(kind, self.values.make(kind), is_name=True)
        while True:
            noun = draw.choice(_NOUNS[kind]) if draw.random() < 0.88 else pseudo_word(draw)
            adjective = draw.choice(words.ADJECTIVES) if kind != "person" and draw.random() < 0.35 else ""
            others = self.heads.setdefault(noun, set())
            if not others or (adjective and "" not in others and adjective not in others):
                break
        others.add(adjective)
        if kind == "person":
            owner = draw.choice(("my", "my", "my", "our", "the"))
        else:
            owner = draw.choice(("the", "the", "the", "my", "our"))
        return Entity(kind, " ".join(filter(None, (owner, adjective, noun))))

    def subject(self) -> Entity:
        """A new subject, or one that something else has been told about."""
        if self.entities and self.draw.random() < 0.3:
            return self.draw.choice(self.entities)
        entity = self.entity()
        self.entities.append(entity)
        return entity

    def relation(self, entity: Entity) -> Relation:
        """Something that was not told of this subject yet."""
        draw = self.draw
        while True:
            chance = draw.random()
            if chance < 0.3:
                relation = self.trait()
            elif chance < 0.42 and not entity.is_name and entity.kind in CALLED.about:
                relation = CALLED
            else:
                relation = draw.choice(BY_SUBJECT[entity.kind])
            if self.note(relation, entity):
                return relation

    def trait(self) -> Relation:
        """An attribute, known or invented."""
        draw = self.draw
        chance = draw.random()
        if chance < 0.3:
            return trait(draw.choice(words.NUMBER_TRAITS), draw.choice(("number", "code")))
        if chance < 0.7:
            return trait(draw.choice(words.NAME_TRAITS), draw.choice(("label", "person")))
        return trait(pseudo_word(draw), draw.choice(_TRAIT_VALUES))

    def note(self, relation: Relation, entity: Entity) -> bool:
        """Mark as told; False if it was already."""
        key = (_SAME.get(relation.name, relation.name), entity.phrase)
        if key in self.told:
            return False
        self.told.add(key)
        return True

    def pick(self) -> tuple[Entity, Relation]:
        """A subject and what will be told of it; at times the speaker."""
        draw = self.draw
        if draw.random() < 0.1:
            self_ = Entity("self", "I")
            while True:
                if draw.random() < 0.3:
                    relation = draw.choice(PLANS)
                elif draw.random() < 0.5:
                    relation = own(draw.choice(words.NUMBER_TRAITS), draw.choice(("number", "code", "password")))
                else:
                    relation = own(draw.choice(words.NAME_TRAITS), "label")
                if self.note(relation, self_):
                    return self_, relation
        entity = self.subject()
        return entity, self.relation(entity)

    # How it is put

    def value(self, relation: Relation, entity: Entity) -> str:
        """A new value."""
        return self.values.make(entity.kind if relation.value == "same" else relation.value)

    def state(self, relation: Relation, subject: str, value: str) -> str:
        """A statement, its first letter as it stands inside a sentence."""
        says = relation.says[-1:] if self.templates == "held-out" else relation.seen_says
        if not value[0].isupper():
            # At the front it would get a capital letter that the reply has not.
            says = tuple(form for form in says if not form.startswith("{v}")) or relation.says[:1]
        return self.draw.choice(says).format(s=subject, v=value)

    def correcting(self, relation: Relation, entity: Entity, value: str) -> str:
        """A statement that takes an earlier one's place; mostly its lead-in says so."""
        lead = self.draw.choice(words.CORRECTIONS) if self.draw.random() < 0.85 else ""
        statement = self.state(relation, entity.phrase, value)
        return lead + statement if lead[-2:-1] in (":", ",") else lead + sentence(statement)

    def led(self, statement: str) -> str:
        """A statement as a sentence, at times behind a lead-in."""
        if self.draw.random() < 0.2:
            return self.draw.choice(words.LEAD_INS) + statement
        return sentence(statement)

    def question(self, relation: Relation, subject: str, *, paraphrase: bool) -> str:
        """A question about a relation."""
        forms = relation.asks
        if paraphrase:
            held_out = self.templates == "held-out" and len(relation.rewords) > 1
            forms = relation.rewords[-1:] if held_out else relation.seen_rewords
        text = self.draw.choice(forms).format(s=subject)
        if self.draw.random() < 0.12:
            lead = self.draw.choice(words.ASK_LEADS)
            return lead + (text if lead.endswith("? ") else text[0].lower() + text[1:])
        return text

    def ask(self, relation: Relation, entity: Entity, value: str, kind: str, *, paraphrase: bool) -> Question:
        """A question with its reply."""
        text = self.question(relation, entity.phrase, paraphrase=paraphrase)
        return Question(text=text, reply=f"{value}.", kind=kind, value=value)

    # The stories

    def fact(self, *, paraphrase: bool) -> list[Item]:
        """One statement, one question."""
        entity, relation = self.pick()
        value = self.value(relation, entity)
        question = self.ask(relation, entity, value, "paraphrase" if paraphrase else "fact", paraphrase=paraphrase)
        return [Item(says=self.led(self.state(relation, entity.phrase, value))), Item(asks=(question,))]

    def corrected(self, *, before: bool) -> list[Item]:
        """A statement and one or two corrections; asked for what holds, or for what held before the last of them."""
        draw = self.draw
        entity, relation = self.pick()
        values = [self.value(relation, entity) for _ in range(3 if draw.random() < 0.3 else 2)]
        items = [Item(says=self.led(self.state(relation, entity.phrase, values[0])))]
        if draw.random() < 0.15:
            items.append(Item(asks=(self.ask(relation, entity, values[0], "fact", paraphrase=False),)))
        items += [Item(says=self.correcting(relation, entity, value)) for value in values[1:]]
        now = self.ask(relation, entity, values[-1], "corrected", paraphrase=draw.random() < 0.3)
        if not before:
            return [*items, Item(asks=(now,))]
        old = values[-2]
        text = self.question(relation, entity.phrase, paraphrase=False)
        lower = text[0].lower() + text[1:]
        form = draw.randrange(4)
        if form == 0:
            follow = draw.choice(("What was it before?", "And before that?", "What had I said before?"))
            return [*items, Item(asks=(now, Question(text=follow, reply=f"{old}.", kind="before", value=old)))]
        text = ("", f"Before the last change: {lower}", f"{text} I mean the old answer.", f"Before that: {lower}")[form]
        return [*items, Item(asks=(Question(text=text, reply=f"{old}.", kind="before", value=old),))]

    def chain(self, steps: int, relations: list[Relation] | None = None) -> list[Item]:
        """Facts of which each is about the value of the one before; the question names only the first subject.

        The reply names the values on the way: "Lena, so Melk."
        """
        draw = self.draw
        given = relations
        if relations is None:
            relations, entity = self._linked(steps)
        else:
            entity = self._first(relations)
        first = entity
        noun = entity.phrase
        statements, values = [], []
        for relation in relations:
            self.note(relation, entity)
            value = self.value(relation, entity)
            statements.append(Item(says=self.led(self.state(relation, entity.phrase, value))))
            values.append(value)
            kind = entity.kind if relation.value == "same" else relation.value
            entity = Entity(kind, value, is_name=True)
        for relation in relations[:-1]:
            noun = relation.noun.format(s=noun) if relation.noun else noun
        last = relations[-1]
        text = self.question(last, noun, paraphrase=draw.random() < 0.3)
        reply = f"{', '.join(values[:-1])}, so {values[-1]}."
        kind = "two-step" if steps == 2 else "three-step"
        asks: tuple[Question, ...] = (Question(text=text, reply=reply, kind=kind, value=values[-1]),)
        if draw.random() < 0.2:
            asks = (self.ask(relations[0], first, values[0], "fact", paraphrase=False), *asks)
        if draw.random() < 0.25:
            draw.shuffle(statements)
        if given is None and draw.random() < 0.5:
            statements = self._merged(statements, [item for item in self.chain(steps, relations) if item.says])
        return [*statements, Item(asks=asks)]

    def _linked(self, steps: int) -> tuple[list[Relation], Entity]:
        """Relations that lead from one to the next, and a first subject."""
        draw = self.draw
        while True:
            alias = draw.random() < 0.6
            kind = draw.choice(("person", "person", "thing", "animal", "company") if alias else tuple(LINKING))
            if kind == "company" and alias:
                kind = "thing"
            relations = [CALLED] if alias else []
            current = kind
            while len(relations) < steps - 1 and LINKING.get(current):
                link = draw.choice(LINKING[current])
                relations.append(link)
                current = link.value
            if len(relations) < steps - 1 or current not in BY_SUBJECT:
                continue
            last = draw.choice(BY_SUBJECT[current]) if draw.random() < 0.8 else self.trait()
            return [*relations, last], self.entity(kind, named=False if alias else None)

    def _first(self, relations: list[Relation]) -> Entity:
        """Another subject that the same relations begin with."""
        alias = relations[0] is CALLED
        kind = self.draw.choice(("person", "thing")) if alias else relations[0].about[0]
        if alias and len(relations) > 1:
            kinds = [k for k in ("person", "thing", "animal") if k in relations[1].about]
            kind = self.draw.choice(kinds)
        return self.entity(kind, named=False if alias else None)

    def _merged(self, left: list[Item], right: list[Item]) -> list[Item]:
        """Two lists, the order within each kept."""
        return merge(self.draw, [left, right])

    def count(self) -> list[Item]:
        """Sightings of animals, and how many there were of one sort. Only once in a chat."""
        draw = self.draw
        if self.counted:
            return self.fact(paraphrase=False)
        self.counted = True
        sort, *others = draw.sample(words.ANIMALS, draw.randrange(2, 5))
        number = draw.choice((0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5))
        seen = [sort] * number + draw.choices(others, k=draw.randrange(0, 5))
        draw.shuffle(seen)
        items = [Item(says=self._sighting(noun)) for noun in seen]
        text = draw.choice(words.COUNT_QUESTIONS).format(n=sort)
        question = Question(text=text, reply=f"{number}.", kind="count", value=str(number))
        return [*items, Item(asks=(question,))]

    def _sighting(self, noun: str) -> str:
        draw = self.draw
        return draw.choice(words.SIGHTINGS).format(
            a=draw.choice(words.ADJECTIVES),
            n=noun,
            p=draw.choice(words.PREPOSITIONS),
            t=draw.choice(words.THINGS),
            y=draw.choice(words.DAYS),
        )

    def absent(self) -> list[Item]:
        """A question about what was never told."""
        draw = self.draw
        if draw.random() < 0.3:
            entity = self.entity()
            relation = self.relation(entity)
        else:
            entity, relation = self.pick()
        text = self.question(relation, entity.phrase, paraphrase=draw.random() < 0.3)
        question = Question(text=text, reply=words.UNKNOWN, kind="absent", value=words.UNKNOWN)
        return [Item(asks=(question,))]

    def long_note(self) -> list[Item]:
        """Three to eight sentences in one turn, one to three of them facts."""
        draw = self.draw
        asides = [self._aside() for _ in range(draw.randrange(2, 6))]
        facts, questions = [], []
        for _ in range(draw.choice((1, 1, 2, 2, 3))):
            entity, relation = self.pick()
            value = self.value(relation, entity)
            facts.append(self.led(self.state(relation, entity.phrase, value)))
            questions.append(self.ask(relation, entity, value, "long-note", paraphrase=draw.random() < 0.4))
        note = asides + facts
        draw.shuffle(note)
        draw.shuffle(questions)
        return [Item(says=" ".join(note), alone=True), *(Item(asks=(question,)) for question in questions)]

    def _aside(self) -> str:
        draw = self.draw
        return draw.choice(words.ASIDES).format(
            a=draw.choice(words.ADJECTIVES),
            b=draw.choice(words.ADJECTIVES),
            t=draw.choice(words.THINGS),
            u=draw.choice(words.THINGS),
            d=draw.choice(words.DEEDS),
            f=draw.choice(words.DISHES),
            p=draw.choice(words.PREPOSITIONS),
            y=draw.choice(words.DAYS),
            e=draw.choice(words.EVENTS),
        )


def merge(draw: random.Random, lists: list[list[Item]]) -> list[Item]:
    """The items of all lists, the order within each kept."""
    order = [number for number, items in enumerate(lists) for _ in items]
    draw.shuffle(order)
    heads = [iter(items) for items in lists]
    return [next(heads[number]) for number in order]
