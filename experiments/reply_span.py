"""Where a span stands best that is recalled while a reply is written: right answers, and replies that end too early.

A chat whose reply has begun without knowing the answer; the fact comes as a turn of the user's and the reply goes on:

    none     [question][reply so far]                           nothing comes
    prompt   [fact][question][reply so far]                     where a prompt's own recall stands
    front    [question][fact][reply so far]                     behind what was read, in front of what was written
    sentence [question][reply to its last sentence][fact][…]    at the current position, the sentence read again
    twice    [question][reply so far][fact][reply so far]       at the current position, the reply read again
    behind   [question][reply so far][fact][opening]            at the current position, a new turn begins

With `--wrong` another fact comes, of another kind: a reply should go on as if it had not.

    python -m experiments.reply_span MODEL_DIR [--wrong] [--limit N]
"""

import argparse
import random
from collections import Counter

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from v14.upgrade.calibration.kinds import KINDS

BEGUN = (
    "Let me think about this for a moment, because I do not want to tell you anything that is wrong. You want to know "
    "this: {question} I looked through what you told me. "
)
HERE = "The answer to your question is that"
NUM_TOKENS = 24
SEED = 5
WAYS = ("none", "prompt", "front", "sentence", "twice", "behind")


def asked() -> list[tuple[str, str, str]]:
    """Statement, question and value of every fact of every kind."""
    return [
        (kind.statements[0].format(s=subject, v=value), kind.ask(subject), value)
        for kind in KINDS
        for subject, value in zip(kind.subjects, kind.values, strict=False)
    ]


def prompt_of(way: str, fact: str, question: str, begun: str, here: str) -> str:
    """The text that is read before the reply goes on."""

    def turn(role: str, text: str) -> str:
        return f"<|im_start|>{role}\n{text}<|im_end|>\n"

    opening, told, ask = "<|im_start|>assistant\n", turn("user", fact), turn("user", question)
    return (
        turn("system", "You are a helpful assistant.")
        + {
            "none": ask + opening + begun + here,
            "prompt": told + ask + opening + begun + here,
            "front": ask + told + opening + begun + here,
            "sentence": ask + turn("assistant", begun.rstrip()) + told + opening + here,
            "twice": ask + turn("assistant", begun + here) + told + opening + begun + here,
            "behind": ask + turn("assistant", begun + here) + told + opening,
        }[way]
    )


@torch.inference_mode()
def main() -> None:
    """Count, for each way, what the replies say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--wrong", action="store_true", help="another fact comes than the one that is asked for")
    parser.add_argument("--limit", type=int, default=20, help="so many facts")
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32).eval()
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    facts = random.Random(SEED).sample(asked(), arguments.limit)
    counts: dict[str, Counter[str]] = {way: Counter() for way in WAYS}
    for place, (statement, question, value) in enumerate(facts):
        other, _, other_value = facts[place - 1]
        fact, begun = other if arguments.wrong else statement, BEGUN.format(question=question)
        prompts = [prompt_of(way, fact, question, begun, HERE) for way in WAYS]
        ids = tokenizer(prompts, return_tensors="pt", add_special_tokens=False, padding=True)
        written = model.generate(**ids, max_new_tokens=NUM_TOKENS, do_sample=False, eos_token_id=end, pad_token_id=end)
        replies = written[:, ids["input_ids"].shape[1] :].tolist()
        for way, reply in zip(WAYS, replies, strict=True):
            said = tokenizer.decode(reply).lower()
            counts[way]["right"] += value.lower() in said
            counts[way]["another fact's value"] += other_value.lower() in said
            counts[way]["ended within 4 tokens"] += end in reply[:4]
            counts[way]["first 8 tokens as without"] += reply[:8] == replies[0][:8]
    for way in WAYS:
        print(f"{way:8}", "  ".join(f"{name} {number:2}" for name, number in counts[way].items()), f" of {len(facts)}")


if __name__ == "__main__":
    main()
