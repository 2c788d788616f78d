"""How many held-out questions a saved model answers, by kind: plain Transformers on the CPU, greedy.

    python -m experiments.tiny_hybrid.evaluate DIR [--seed 1] [--num 200]

Names and values belong to the evaluation's side; a second pair of columns also uses the sentences that training never
shows. `exact` is the whole reply, `value` a reply that contains the value.
"""

import argparse
import random
import re
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from experiments.tiny_hybrid.chats import question_chat
from experiments.tiny_hybrid.data import Encoder
from experiments.tiny_hybrid.models import END_TOKEN, PAD_TOKEN
from experiments.tiny_hybrid.stories import KINDS, Templates

BATCH = 25
REPLY_TOKENS = 40
TEMPLATES: tuple[Templates, ...] = ("seen", "held-out")


def replies(model: PreTrainedModel, encoder: Encoder, prompts: list[list[int]]) -> list[str]:
    """The greedy reply to each prompt."""
    texts = [""] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
    for first in range(0, len(order), BATCH):
        numbers = order[first : first + BATCH]
        length = max(len(prompts[number]) for number in numbers)
        ids = torch.full((len(numbers), length), PAD_TOKEN)
        mask = torch.zeros_like(ids)
        for row, number in enumerate(numbers):
            ids[row, length - len(prompts[number]) :] = torch.tensor(prompts[number])
            mask[row, length - len(prompts[number]) :] = 1
        output = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=REPLY_TOKENS,
            do_sample=False,
            eos_token_id=END_TOKEN,
            pad_token_id=PAD_TOKEN,
        )
        for row, number in enumerate(numbers):
            texts[number] = encoder.tokenizer.decode(output[row, length:].tolist(), skip_special_tokens=True)
    return texts


def contains(text: str, value: str) -> bool:
    """Whether a value stands in a text, not inside another word or number."""
    return re.search(rf"(?<!\w){re.escape(value.rstrip('.'))}(?!\w)", text, re.IGNORECASE) is not None


def score(
    model: PreTrainedModel, encoder: Encoder, kind: str, templates: Templates, *, num: int, seed: int
) -> tuple[int, int]:
    """Right replies among `num` questions of a kind: exactly, and by their value."""
    draw = random.Random(f"evaluate {kind} {templates} {seed}")
    asked = [question_chat(draw, kind, templates=templates) for _ in range(num)]
    answers = replies(model, encoder, [encoder.prompt(turns) for turns, _ in asked])
    pairs = [(answer.strip(), question) for answer, (_, question) in zip(answers, asked, strict=True)]
    exact = sum(answer == question.reply for answer, question in pairs)
    return exact, sum(contains(answer, question.value) for answer, question in pairs)


def main() -> None:
    """Print the table of one model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--num", type=int, default=200, help="questions of each kind")
    options = parser.parse_args()
    logging.set_verbosity_error()
    torch.set_grad_enabled(False)
    model = AutoModelForCausalLM.from_pretrained(options.directory, dtype=torch.float32).eval()
    encoder = Encoder(AutoTokenizer.from_pretrained(options.directory).backend_tokenizer)
    print(f"{options.num} questions of each kind, seed {options.seed}\n")
    print("| question | exact | value | exact, held-out sentences | value, held-out sentences |\n|---|---|---|---|---|")
    for kind in KINDS:
        cells = []
        for templates in TEMPLATES:
            counts = score(model, encoder, kind, templates, num=options.num, seed=options.seed)
            cells += [f"{count / options.num:.3f}" for count in counts]
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
