"""The tokenizer of both models: byte-level BPE, every digit a token of its own, ChatML turns."""

import json
import random
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from experiments.tiny_hybrid.chats import chat

VOCAB_SIZE = 2048
END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
NUM_CHATS = 12_000
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer(num_chats: int = NUM_CHATS, seed: int = 7) -> PreTrainedTokenizerFast:
    """The tokenizer of a seed, from chats of the training side."""
    draw = random.Random(seed)
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = (f"{turn.role}\n{turn.text}" for _ in range(num_chats) for turn in chat(draw))
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=None,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        model_max_length=4096,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, directory: Path) -> None:
    """Write the tokenizer and its template; the class by the name that every version of Transformers knows."""
    tokenizer.save_pretrained(directory)
    place = directory / "tokenizer_config.json"
    config = json.loads(place.read_text())
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    place.write_text(json.dumps(config, indent=2) + "\n")


def saved_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    """The tokenizer in a directory, trained and saved there if there is none."""
    if not (directory / "tokenizer.json").exists():
        directory.mkdir(parents=True, exist_ok=True)
        save_tokenizer(train_tokenizer(), directory)
    return PreTrainedTokenizerFast.from_pretrained(directory)
