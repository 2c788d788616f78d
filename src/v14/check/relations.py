"""Rows about facts that hang together: corrected ones, and those that take two chats to answer."""

from collections.abc import Sequence

from v14.check.client import Message, Reply
from v14.check.related import Related
from v14.check.scoring import contains, recalls
from v14.check.suite import TELL_TOKENS, Step, Suite, user


def corrections(suite: Suite) -> None:
    """Rows `corrected_once`, `corrected_twice`: what holds at present, asked in a new chat; each with its ceiling."""
    asked = {"corrected_once": suite.questions.corrected_once, "corrected_twice": suite.questions.corrected_twice}
    for name, facts in asked.items():
        if not facts:
            suite.skip("corrected", name, f"{name}_same_chat")
            continue
        step = suite.phase(name.replace("_", " "), len(facts) * (len(facts[0].statements) + 2))
        _tell(suite, facts, step)
        replies = suite.each(lambda fact: suite.say(user(fact.question)), facts, step)
        suite.report.count(name, sum(map(_right, replies, facts)), len(facts))
        _ceiling(suite, name, facts, step)


def two_steps(suite: Suite) -> None:
    """Rows `two_step`: questions that need two facts from two chats; `two_step_recalled` counts both statements."""
    facts = suite.questions.two_step
    if not facts:
        suite.skip("two_step", "two_step", "two_step_recalled", "two_step_same_chat")
        return
    step = suite.phase("two-step questions", 4 * len(facts))
    _tell(suite, facts, step)
    replies = suite.each(lambda fact: suite.say(user(fact.question)), facts, step)
    suite.report.count("two_step", sum(map(_right, replies, facts)), len(facts))
    both = [
        all(recalls(reply.account, text) for text in fact.statements)
        for reply, fact in zip(replies, facts, strict=True)
    ]
    suite.report.count("two_step_recalled", sum(both), len(facts))
    _ceiling(suite, "two_step", facts, step)


def _tell(suite: Suite, facts: Sequence[Related], step: Step) -> None:
    """Every statement in a chat of its own; what is said first has to be read first, so one round after the other."""
    for statements in zip(*(fact.statements for fact in facts), strict=True):
        suite.each(lambda text: suite.say(user(text), max_tokens=TELL_TOKENS), statements, step)


def _ceiling(suite: Suite, name: str, facts: Sequence[Related], step: Step) -> None:
    """The same statements as earlier turns of the same chat, memory off."""

    def asked(fact: Related) -> Reply:
        turns: list[Message] = []
        for text in fact.statements:
            turns += [*user(text), {"role": "assistant", "content": "Okay."}]
        return suite.say([*turns, *user(fact.question)], memory="off")

    replies = suite.each(asked, facts, step)
    suite.report.count(f"{name}_same_chat", sum(map(_right, replies, facts)), len(facts))


def _right(reply: Reply, fact: Related) -> bool:
    return contains(reply.text, [fact.value]) and not contains(reply.text, fact.outdated)
