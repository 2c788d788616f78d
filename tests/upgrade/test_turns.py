"""Turn formats derived from chat templates of the common shapes, over a byte-level tokenizer."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from v14.errors import UpgradeError
from v14.events.cut import Cutter
from v14.events.phrases import Phrases
from v14.upgrade.phrases import phrase_runs
from v14.upgrade.sentences import question_ends, sentence_ends
from v14.upgrade.turns import render, turn_format

CHATML = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nBe helpful.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN_TOOLS = CHATML.replace(
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}",
    "{% if m['role'] == 'tool' %}<|im_start|>user\n<tool_response>\n{{ m['content'] }}\n</tool_response>"
    "{% else %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}{% endif %}",
)
LLAMA3 = (
    "<|begin|>{% for m in messages %}<|start_header|>{{ m['role'] }}<|end_header|>\n\n{{ m['content'] | trim }}<|eot|>"
    "{% endfor %}{% if add_generation_prompt %}<|start_header|>assistant<|end_header|>\n\n{% endif %}"
)
GEMMA = (
    "<bos>{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] + '\n\n' %}"
    "{% set messages = messages[1:] %}{% else %}{% set first = '' %}{% endif %}{% for m in messages %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{{ first if loop.first else '' }}"
    "{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
MISTRAL = (
    "<s>{% for m in messages %}{% if m['role'] == 'user' %}[INST]{{ m['content'] }}[/INST]"
    "{% elif m['role'] == 'assistant' %}{{ m['content'] }}</s>{% else %}{{ raise_exception('no') }}{% endif %}"
    "{% endfor %}"
)
SPECIAL = [
    *("<|im_start|>", "<|im_end|>", "<|begin|>", "<|start_header|>", "<|end_header|>", "<|eot|>"),
    *("<bos>", "<start_of_turn>", "<end_of_turn>", "<s>", "</s>", "[INST]", "[/INST]"),
]
TEMPLATES = {
    "chatml": (CHATML, {"system", "user", "assistant", "tool"}),
    "qwen tools": (QWEN_TOOLS, {"system", "user", "assistant", "tool"}),
    "llama3": (LLAMA3, {"system", "user", "assistant", "tool"}),
    "gemma": (GEMMA, {"user", "assistant"}),
    "mistral": (MISTRAL, {"user", "assistant"}),
}


def tokenizer_with(template):
    """Bytes and special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({byte: number for number, byte in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, additional_special_tokens=SPECIAL)
    tokenizer.chat_template = template
    return tokenizer


@pytest.mark.parametrize("name", TEMPLATES)
def test_events_of_a_conversation_are_its_turns(name):
    template, roles = TEMPLATES[name]
    tokenizer = tokenizer_with(template)
    found = turn_format(tokenizer)
    assert set(found.openings) == roles
    told = [("user", "Where is it?"), ("assistant", "Under the bed."), ("user", "Thanks"), ("assistant", "Fine.")]
    ids = render(tokenizer, [{"role": role, "content": text} for role, text in told])
    cuts = Cutter(turns=found).cut(ids, namespace="n", said_at=0.0)
    assert [cut.event.role for cut in cuts] == [role for role, _ in told]
    for cut, (_, text) in zip(cuts, told, strict=True):
        body = tokenizer.decode(cut.event.token_ids[: cut.event.num_tokens - cut.event.closing_len])
        assert body.endswith(text)
    prompt = render(tokenizer, [{"role": "user", "content": "Where?"}], generate=True)
    assert next(turn.role for turn in found.turns(prompt) if turn.role != "system") == "user"
    # What a server appends to ask for a reply is the opening of the assistant's turn.
    assert tuple(prompt[-len(found.openings["assistant"]) :]) == found.openings["assistant"]


def test_a_tool_turn_is_not_the_users():
    tokenizer = tokenizer_with(QWEN_TOOLS)
    found = turn_format(tokenizer)
    told = [("user", "Look it up"), ("assistant", "One moment."), ("tool", "42"), ("assistant", "It is 42.")]
    ids = render(tokenizer, [{"role": role, "content": text} for role, text in told])
    assert [turn.role for turn in found.turns(ids)] == ["system", *(role for role, _ in told)]


def test_no_template_no_openings():
    assert turn_format(tokenizer_with(None)).openings == {}


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for m in messages %}{{ m['content'] }}\n{% endfor %}", "in front of"),
        ("{{ raise_exception('never') }}", "refuses"),
        ("<s>{{ messages[-1]['content'] }}</s>", "does not keep"),
    ],
)
def test_templates_without_fixed_turns_are_refused(template, why):
    with pytest.raises(UpgradeError, match=why):
        turn_format(tokenizer_with(template))


def test_sentence_ends():
    tokenizer = tokenizer_with(None)
    ends = sentence_ends(tokenizer)
    ids = tokenizer.convert_tokens_to_ids
    assert {ids("."), ids("?"), ids("!"), ids("Ċ")} <= ends
    assert not {ids("a"), ids(","), ids("Ġ")} & ends
    assert ids("?") in question_ends(tokenizer)
    assert not {ids("."), ids("a"), ids("Ċ")} & question_ends(tokenizer)


def test_phrases_are_found_at_the_beginning_and_behind_a_blank():
    tokenizer = tokenizer_with(None)
    assert phrase_runs(tokenizer, "change") == tuple(sorted(set(phrase_runs(tokenizer, "change"))))
    history = Phrases(phrase_runs(tokenizer, "history"))
    for text in ("What was it before?", "Previously, who was it?", "Wie hieß er früher?", "以前是谁？"):
        assert history(tokenizer(text, add_special_tokens=False)["input_ids"]), text
    assert not history(tokenizer("Who is my dentist?", add_special_tokens=False)["input_ids"])
    changed = Phrases(phrase_runs(tokenizer, "change"))
    assert changed(tokenizer("That has changed: it is Ann.", add_special_tokens=False)["input_ids"])
    assert not changed(tokenizer("It is Ann.", add_special_tokens=False)["input_ids"])
