"""How a small model reads a span: which of two steps stands last, and whether a header that says when helps it.

    python -m experiments.span_reading MODEL DUMP...

MODEL is a checkpoint with a chat template, DUMP a file of `benchmarks.recall.study` of the same tokenizer. What is
needed for a question is put in front of it as turns of the user, without a search. Prints right answers, and those with
an old value, by row and form of the span.
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from v14.check.scoring import contains

ROWS = ("single fact", "paraphrase", "two-step", "corrected", "temporal")
HEADERS = {"dated": "(%A, %-d %B %Y) ", "short date": "%-d %B: "}
OPENING_LEN = 3
"""Tokens that open a turn of the user in ChatML."""

BATCH, NEW_TOKENS = 96, 24


class Job(NamedTuple):
    """A prompt, and what its reply is held against."""

    name: str
    ids: list[int]
    accepted: tuple[str, ...]
    refused: tuple[str, ...]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("dumps", type=Path, nargs="+")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer: Any = AutoTokenizer.from_pretrained(arguments.model)
    model: Any = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.bfloat16).eval().to(device)
    jobs = []
    for dump in arguments.dumps:
        data = json.loads(np.load(dump)["data"].tobytes())
        draw = random.Random(5)
        statements = [e for e in data["events"] if e["role"] == "user" and not e["asks"] and len(e["tokens"]) < 40]
        for case in data["cases"]:
            if case["row"] in ROWS:
                wrong = [event["tokens"] for event in draw.sample(statements, 2)]
                jobs += [
                    Job(f"{case['row']}: {name}", ids, tuple(case["accepted"]), tuple(case["refused"]))
                    for name, ids in _prompts(tokenizer, data["events"], case, wrong)
                ]
    found: defaultdict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for job, reply in zip(jobs, _replies(model, tokenizer, [job.ids for job in jobs]), strict=True):
        found[job.name].append((contains(reply, job.accepted), contains(reply, job.refused)))
    for name, each in found.items():
        right, old = (sum(column) for column in zip(*each, strict=True))
        print(f"{name}: right {right}, old {old} of {len(each)}")


def _prompts(
    tokenizer: Any, events: Sequence[dict[str, Any]], case: dict[str, Any], wrong: Sequence[list[int]]
) -> Iterator[tuple[str, list[int]]]:
    asked = case["asked"]
    whole = _chat(tokenizer, [("user", case["question"])])
    head = whole[: len(whole) - len(asked)]
    if case["row"] == "two-step":
        told = [events[holders[0]] for holders in case["needed"]]
        first, second = (event["tokens"] for event in told)
        spans = {"first last": second + first, "second last": first + second, "second alone": second}
        spans |= {f"{name}, a wrong one in front": wrong[0] + span for name, span in list(spans.items())[:2]}
        spans |= {"first last, a wrong one between": second + wrong[0] + first}
        spans |= {"second last, a wrong one between": first + wrong[0] + second}
    else:
        told = [event for event in events if event["said_at"] in case["chats"] and event["role"] == "user"]
        told.sort(key=lambda event: event["said_at"])
        plain = [token for event in told for token in event["tokens"]]
        spans = {"plain": plain, "a wrong one in front": wrong[0] + plain, "two in front": wrong[0] + wrong[1] + plain}
        spans |= {name: _headed(tokenizer, told, form) for name, form in HEADERS.items()}
    for name, span in spans.items():
        yield name, head + span + asked
    turns = [turn for event in told for turn in (("user", event["text"]), ("assistant", "Okay."))]
    yield "same chat", _chat(tokenizer, [*turns, ("user", case["question"])])


def _headed(tokenizer: Any, told: Sequence[dict[str, Any]], form: str) -> list[int]:
    span: list[int] = []
    for event in told:
        header = tokenizer(datetime.fromtimestamp(event["said_at"], UTC).strftime(form))["input_ids"]
        span += event["tokens"][:OPENING_LEN] + header + event["tokens"][OPENING_LEN:]
    return span


def _chat(tokenizer: Any, turns: Sequence[tuple[str, str]]) -> list[int]:
    messages = [{"role": role, "content": text} for role, text in turns]
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"])


@torch.inference_mode()
def _replies(model: Any, tokenizer: Any, prompts: Sequence[list[int]]) -> list[str]:
    """Greedy replies, in batches of like lengths with padding in front."""
    end = tokenizer.eos_token_id
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
    replies = [""] * len(prompts)
    for start in range(0, len(order), BATCH):
        group = order[start : start + BATCH]
        longest = max(len(prompts[n]) for n in group)
        pads = [longest - len(prompts[n]) for n in group]
        ids = torch.tensor([[end] * pad + prompts[n] for pad, n in zip(pads, group, strict=True)], device=model.device)
        mask = torch.tensor([[0] * pad + [1] * (longest - pad) for pad in pads], device=model.device)
        options = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "pad_token_id": end, "eos_token_id": end}
        written = model.generate(ids, attention_mask=mask, **options)[:, longest:]
        for n, row in zip(group, written, strict=True):
            replies[n] = tokenizer.decode(row, skip_special_tokens=True)
    return replies


if __name__ == "__main__":
    main()
