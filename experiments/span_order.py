"""Does it matter where in a span the right event stands? Statements of the calibration set, asked behind others.

    python experiments/span_order.py CHECKPOINT

Prints, for each arrangement in front of the question, how many answers contain the value (greedy, bf16).
"""

import random
import sys
from collections.abc import Callable

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from v14.check.scoring import contains
from v14.upgrade.calibration.kinds import KINDS

SEED = 5
BATCH = 16
ANSWER_TOKENS = 32

Message = dict[str, str]
Statement = tuple[str, str, str]


def user(text: str) -> Message:
    """A user's turn."""
    return {"role": "user", "content": text}


def reply(text: str) -> Message:
    """The model's turn."""
    return {"role": "assistant", "content": text}


def statements() -> tuple[list[Statement], list[str]]:
    """One (statement, question, value) of each kind with several subjects, and beside each another of its kind."""
    draw = random.Random(SEED)
    found, others = [], []
    for kind in (kind for kind in KINDS if len(kind.subjects) > 1):
        (subject, other), (value, wrong) = draw.sample(kind.subjects, 2), draw.sample(list(kind.values), 2)
        told = draw.choice(kind.statements).format(s=subject, v=value)
        asked = draw.choice([kind.direct, kind.paraphrase]).format(s=subject)
        found.append((told[0].upper() + told[1:], asked, value))
        told = draw.choice(kind.statements).format(s=other, v=wrong)
        others.append(told[0].upper() + told[1:])
    return found, others


def arrangements(facts: list[Statement], others: list[str]) -> dict[str, Callable[[int], list[Message]]]:
    """What stands in front of question i, by name."""

    def right(i: int) -> Message:
        return user(facts[i][0])

    def wrong(i: int, n: int = 1) -> Message:
        return user(facts[(i + 7 * n) % len(facts)][0])

    return {
        'the statement, a reply "Okay." (same chat)': lambda i: [right(i), reply("Okay.")],
        "the statement": lambda i: [right(i)],
        "one wrong, then the statement": lambda i: [wrong(i), right(i)],
        "one of its kind, then the statement": lambda i: [user(others[i]), right(i)],
        "a wrong one, one of its kind, then the statement": lambda i: [wrong(i), user(others[i]), right(i)],
        "two wrong, then the statement": lambda i: [wrong(i, 1), wrong(i, 2), right(i)],
        "the statement, then one wrong": lambda i: [right(i), wrong(i)],
        "the statement, an empty reply": lambda i: [right(i), reply("")],
        "one wrong and the statement, each with an empty reply": lambda i: [wrong(i), reply(""), right(i), reply("")],
    }


def main() -> None:
    """Measure one checkpoint."""
    torch.set_grad_enabled(False)
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16).eval()
    facts, others = statements()
    for name, front in arrangements(facts, others).items():
        num_right = 0
        for first in range(0, len(facts), BATCH):
            batch = range(first, min(first + BATCH, len(facts)))
            texts = [
                tokenizer.apply_chat_template(
                    [*front(i), user(facts[i][1])], tokenize=False, add_generation_prompt=True
                )
                for i in batch
            ]
            inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
            written = model.generate(**inputs, max_new_tokens=ANSWER_TOKENS, do_sample=False)
            answers = tokenizer.batch_decode(written[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            num_right += sum(contains(answer, [facts[i][2]]) for answer, i in zip(answers, batch, strict=True))
        print(f"{num_right:3} of {len(facts)}  {name}", flush=True)


if __name__ == "__main__":
    main()
