"""The questions of the check, asked one row after the other through one client."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from v14.check import speed
from v14.check.client import ChatClient, Message, Reply
from v14.check.facts import Fact
from v14.check.questions import LongText, Questions
from v14.check.rows import Report
from v14.check.scoring import contains, recalled
from v14.config import Mode
from v14.errors import CheckError

NUM_SPARE = 7
LONG_PROMPT_WORDS = 1740
TELL_TOKENS = 24
ANSWER_TOKENS = 48
DROP_PATIENCE_S = 15.0
NUM_CLIENTS = 4
"""Chats asked side by side where the row is not about time: servers batch, and none of these chats knows another."""

Item = TypeVar("Item")
Result = TypeVar("Result")
AFTER_CHATS = "_after_chats"
AFTER_RESTART = "_after_restart"

Step = Callable[[], None]
Phase = Callable[[str, int], Step]
"""Begins a phase of so many requests, by name, and returns what to call after each of them."""


def user(text: str) -> list[Message]:
    """A chat that begins with this message."""
    return [{"role": "user", "content": text}]


@dataclass(kw_only=True)
class Suite:
    """Asks `questions` through `client` and adds rows to `report`; `alive` says whether the server is still there.

    Every chat is a request of its own with the memory's default (read and write), unless it says otherwise. Rows for
    which there is nothing to ask are skipped, with the reason.
    """

    client: ChatClient
    report: Report
    questions: Questions
    phase: Phase = lambda name, total: lambda: None
    alive: Callable[[], bool] = lambda: True
    failures: list[str] = field(default_factory=list)

    @property
    def seed(self) -> int:
        """The seed of all that is asked."""
        return self.report.seed

    @property
    def facts(self) -> Sequence[Fact]:
        """The facts of the main rows."""
        return self.questions.facts

    @property
    def has_spare_facts(self) -> bool:
        """Whether there are facts for the rows of one question."""
        return len(self.questions.spare_facts) >= NUM_SPARE

    @cached_property
    def spare_facts(self) -> list[Fact]:
        """`NUM_SPARE` further facts, those first that the model answers when they stand in the same chat.

        Single-question rows would otherwise measure the model more than the memory.
        """
        spare = self.questions.spare_facts
        step = self.phase("facts for the single rows", len(spare))
        answered: list[Fact] = []
        for fact in spare:
            if len(answered) < NUM_SPARE and self._right(self._same_chat(fact), fact):
                answered.append(fact)
            step()
        return (answered + [fact for fact in spare if fact not in answered])[:NUM_SPARE]

    @cached_property
    def served(self) -> Mapping[str, Any]:
        """What the server says of itself and its model."""
        return self.client.facts()

    def room_tokens(self) -> int | None:
        """The longest prompt that the server takes, in tokens; None where it does not say."""
        found = self.served.get("max_req_input_len")
        return found if isinstance(found, int) else None

    def accept_length(self) -> None:
        """Row `accept_length`: tokens that one pass of speculative decoding gives, over all of this run."""
        states = self.client.facts().get("internal_states") or [{}]
        length = states[0].get("avg_spec_accept_length") if isinstance(states[0], dict) else None
        if length is None:
            self.report.skip("not served with speculative decoding", "accept_length")
        else:
            self.report.measure("accept_length", float(length), "tokens")

    def tell(self) -> None:
        """Tell every fact in a chat of its own."""
        step = self.phase("tell the facts", len(self.facts))
        self.each(lambda fact: self.say(user(fact.statement), max_tokens=TELL_TOKENS), self.facts, step)

    def ask(self, suffix: str = "") -> None:
        """Rows `facts` and `right_event_recalled`: each question in a new chat."""
        step = self.phase("ask the facts" + suffix.replace("_", " "), len(self.facts))
        replies = self.each(lambda fact: self.say(user(fact.question)), self.facts, step)
        answered = list(zip(replies, self.facts, strict=True))
        self.report.count("facts" + suffix, sum(self._right(*pair) for pair in answered), len(answered))
        found = sum(recalled(reply.account, fact) for reply, fact in answered)
        self.report.count("right_event_recalled" + suffix, found, len(answered))

    def ask_without_memory(self) -> None:
        """Rows `facts_same_chat`, the model's own ceiling, and `facts_memory_off`."""
        step = self.phase("ask with the memory off", 2 * len(self.facts))
        same_chat = self.each(lambda fact: self._right(self._same_chat(fact), fact), self.facts, step)
        nothing = self.each(
            lambda fact: self._right(self.say(user(fact.question), memory="off"), fact), self.facts, step
        )
        self.report.count("facts_same_chat", sum(same_chat), len(same_chat))
        self.report.count("facts_memory_off", sum(nothing), len(nothing))

    def unrelated(self, suffix: str = "", *, baseline: bool) -> None:
        """Rows `unrelated…`: general questions, which must stay right and should recall nothing.

        They only read the memory: once written, the same question would rightly recall itself.
        """
        questions = self.questions.unrelated
        if not questions:
            baselines = ("unrelated_memory_off",) if baseline else ()
            self.skip("unrelated", "unrelated" + suffix, *baselines, "unrelated_recalling" + suffix)
            return
        step = self.phase("unrelated questions" + suffix.replace("_", " "), len(questions) * (1 + baseline))

        def answers(memory: Mode) -> tuple[list[Reply], int]:
            replies = self.each(lambda question: self.say(user(question.text), memory=memory), questions, step)
            right = [contains(r.text, question.accepted) for r, question in zip(replies, questions, strict=True)]
            return replies, sum(right)

        replies, right = answers("read")
        self.report.count("unrelated" + suffix, right, len(questions))
        if baseline:
            self.report.count("unrelated_memory_off", answers("off")[1], len(questions))
        recalling = sum(bool(reply.account and reply.account.recalled) for reply in replies)
        self.report.count("unrelated_recalling" + suffix, recalling, len(questions))

    def chats(self) -> None:
        """Chats about other things."""
        openings = self.questions.chats
        step = self.phase("unrelated chats", len(openings))
        self.each(lambda opening: self.say(user(opening), max_tokens=TELL_TOKENS), openings, step)

    def four_at_once(self) -> None:
        """Row `four_at_once`: four clients, each tells a fact and asks for it in a new chat."""
        if not self.has_spare_facts:
            self.skip("spare_facts", "four_at_once")
            return
        facts = self.spare_facts[:4]
        step = self.phase("four at once", len(facts))

        def tell_and_ask(fact: Fact) -> bool:
            self.say(user(fact.statement), max_tokens=TELL_TOKENS)
            return self._right(self.say(user(fact.question)), fact)

        self.report.count("four_at_once", sum(self.each(tell_and_ask, facts, step)), len(facts))

    def long_prompt(self) -> None:
        """Row `long_prompt`: a fact in the middle of about 2,000 tokens, asked for in another chat."""
        long_text = self.long_text("long_prompt", "long_prompt_tokens")
        if long_text is None:
            return
        fact = self.spare_facts[4]
        step = self.phase("long prompt", 2)
        text = long_text(0, fact.statement, LONG_PROMPT_WORDS)
        told = self.say(user(text), max_tokens=TELL_TOKENS)
        step()
        right = self._right(self.say(user(fact.question)), fact)
        step()
        self.report.count("long_prompt", right, 1)
        self.report.measure("long_prompt_tokens", told.prompt_tokens, "tokens")

    def dropped_stream(self) -> None:
        """Row `dropped_stream`: the server answers after a client went away, and knows what that client said.

        Engines notice a dropped connection late, so the question is put again until the patience ends.
        """
        if not self.has_spare_facts:
            self.skip("spare_facts", "dropped_stream")
            return
        fact = self.spare_facts[5]
        step = self.phase("dropped stream", 2)
        message = user(f"{fact.statement} {self.questions.story}".strip())
        try:
            self.client.stream(message, max_tokens=256, drop_after=1)
        except CheckError as error:
            self.note(error)
        step()
        deadline = time.monotonic() + DROP_PATIENCE_S
        while not (found := recalled(self.say(user(fact.question), memory="read").account, fact)):
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        step()
        self.report.count("dropped_stream", found, 1)

    def speed(self, repeats: int = 7) -> None:
        """Rows `first_token_…`, `decode_…` and, where the server's streams tell, `timed_recalling`."""
        step = self.phase("speed", 2 * (repeats + 1))
        prompt = self.questions.timed
        result = speed.measure(self.client, self.facts, prompt, seed=self.seed, repeats=repeats, step=step)
        self.report.measure("first_token_on", result.first_token_on_s, "s")
        self.report.measure("first_token_off", result.first_token_off_s, "s")
        self.report.measure("decode_on", result.decode_on, "tokens/s")
        self.report.measure("decode_off", result.decode_off, "tokens/s")
        if result.accounted:
            self.report.count("timed_recalling", result.recalling, result.accounted)

    def each(self, ask: Callable[[Item], Result], items: Iterable[Item], step: Step) -> list[Result]:
        """`ask` of every item, `NUM_CLIENTS` side by side; results in the order of the items."""

        def counted(item: Item) -> Result:
            result = ask(item)
            step()
            return result

        with ThreadPoolExecutor(NUM_CLIENTS) as pool:
            return list(pool.map(counted, items))

    def skip(self, part: str, *rows: str) -> None:
        """Note rows that need a part of the questions which there is not."""
        self.report.skip(f"{self.questions.source} has no `{part}`", *rows)

    def long_text(self, *rows: str) -> LongText | None:
        """What makes long texts, to tell a fact in; None, with `rows` skipped, where it or the facts are missing."""
        if not self.has_spare_facts:
            self.skip("spare_facts", *rows)
            return None
        if self.questions.long_text is None:
            self.skip("passages", *rows)
        return self.questions.long_text

    def _same_chat(self, fact: Fact) -> Reply:
        told = [*user(fact.statement), {"role": "assistant", "content": "Okay."}]
        return self.say([*told, *user(fact.question)], memory="off")

    def _right(self, reply: Reply, fact: Fact) -> bool:
        return contains(reply.text, [fact.value])

    def say(self, messages: Sequence[Message], *, max_tokens: int = ANSWER_TOKENS, memory: Mode = "both") -> Reply:
        """A reply; a request that fails is an empty one, noted, as long as the server is there."""
        try:
            return self.client.chat(messages, max_tokens=max_tokens, memory=memory)
        except CheckError as error:
            self.note(error)
            return Reply(text="")

    def note(self, error: CheckError) -> None:
        """Count a request that failed. Raises the error where the server is gone."""
        if not self.alive():
            raise error
        self.failures.append(str(error))
