"""The small hybrids' generator, recurrences and training."""

import argparse
import math
import multiprocessing as mp
import random
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from experiments.tiny_hybrid import train as training
from experiments.tiny_hybrid.chats import Turn, chat, question_chat
from experiments.tiny_hybrid.data import ANSWER, CONTEXT, LENGTHS, PAD, Encoder, blocks
from experiments.tiny_hybrid.evaluate import contains, score
from experiments.tiny_hybrid.models import ARCHITECTURES, config_of, raw_config, save
from experiments.tiny_hybrid.modules import Hybrid
from experiments.tiny_hybrid.names import Values, side
from experiments.tiny_hybrid.relations import CALLED, TABLE
from experiments.tiny_hybrid.scan import gated_delta_rule, mamba2_scan
from experiments.tiny_hybrid.scoring import Held
from experiments.tiny_hybrid.stories import KINDS
from experiments.tiny_hybrid.tokenizer import VOCAB_SIZE, save_tokenizer, train_tokenizer
from experiments.tiny_hybrid.vocabulary import UNKNOWN
from v14.check.facts import SUBJECTS
from v14.upgrade.calibration.kinds import KINDS as CALIBRATED

LENGTHS_TRIED = (1, 63, 64, 65, 150)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(num_chats=300)


@pytest.fixture(scope="module")
def encoder(tokenizer: PreTrainedTokenizerFast) -> Encoder:
    return Encoder(tokenizer.backend_tokenizer)


def text_of(turns: list[Turn]) -> str:
    return "\n".join(turn.text for turn in turns)


class TestGenerator:
    @given(st.integers(0, 2**32))
    @settings(max_examples=50, deadline=None)
    def test_the_same_seed_gives_the_same_chat(self, seed: int) -> None:
        assert chat(random.Random(seed)) == chat(random.Random(seed))

    @given(st.integers(0, 2**32), st.sampled_from(("person", "place", "number", "code", "spot", "reason", "date")))
    @settings(max_examples=50, deadline=None)
    def test_values_are_of_their_own_side(self, seed: int, kind: str) -> None:
        parts = {}
        for split in ("train", "eval"):
            values = Values(random.Random(seed), split)
            made = [values.make(kind) for _ in range(20)]
            if kind in ("person", "place"):
                made = [made_one.split()[-1] for made_one in made if len(made_one.split()) == 1]
            assert {side(value) for value in made} <= {split}
            parts[split] = set(made)
        assert not parts["train"] & parts["eval"]

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("templates", ["seen", "held-out"])
    def test_what_is_asked_for_was_told(self, kind: str, templates: str) -> None:
        draw = random.Random(f"{kind} {templates}")
        for _ in range(60):
            turns, question = question_chat(draw, kind, templates=templates)
            assert turns[-1].role == "user"
            assert turns[-1].text.endswith(question.text)
            assert question.kind == kind
            told = text_of(turns)
            if kind == "absent":
                assert question.reply == UNKNOWN
            elif kind == "count":
                sort = re.search(r"(\S+)s (?:did I|have I|that I)", question.text).group(1)
                assert len(re.findall(rf"\ba (?:\w+ )?{sort} ", told, re.IGNORECASE)) + len(
                    re.findall(rf"\ba (?:\w+ )?{sort}\.", told, re.IGNORECASE)
                ) == int(question.value)
            else:
                assert question.value in told
                assert question.value in question.reply

    def test_a_correction_holds_and_what_was_before_does_not(self) -> None:
        for seed in range(60):
            now, before = (question_chat(random.Random(seed), kind)[1:] for kind in ("corrected", "before"))
            turns, [old] = question_chat(random.Random(seed), "before")[0], before
            assert text_of(turns).count(old.value) >= 1
            assert now[0].kind == "corrected"

    def test_the_last_of_the_values_is_the_answer_and_the_last_but_one_was_before(self) -> None:
        draw = random.Random(5)
        for _ in range(60):
            turns, question = question_chat(draw, "corrected", num_others=0)
            statements = [turn.text for turn in turns if turn.role == "user"]
            # No statement behind the last one that has the value can be about the same.
            last = max(number for number, text in enumerate(statements) if question.value in text)
            assert last >= len(statements) - 4

    def test_steps_lead_from_the_subject_to_the_value(self) -> None:
        draw = random.Random(6)
        for kind, steps in (("two-step", 2), ("three-step", 3)):
            for _ in range(40):
                turns, question = question_chat(draw, kind)
                way = re.split(r", so |, ", question.reply.rstrip("."), maxsplit=steps - 1)
                assert len(way) == steps
                for value in way[:-1]:
                    assert text_of(turns).count(value) >= 2
                    assert value not in question.text

    def test_held_out_sentences_are_not_in_training(self) -> None:
        text = text_of([turn for seed in range(400) for turn in chat(random.Random(seed))])
        for relation in (*TABLE, CALLED):
            assert len(relation.says) > 2
            held_out, *_ = relation.says[-1:]
            pattern = re.escape(held_out).replace(r"\{s\}", r"[\w' &-]+").replace(r"\{v\}", r"[\w' &,:-]+")
            assert not re.search(rf"(?:^|[.:,] ){pattern}", text, re.IGNORECASE | re.MULTILINE), held_out

    def test_nothing_of_the_check_or_of_the_calibration_is_trained_on(self) -> None:
        draw = random.Random(8)
        sentences = {s for _ in range(2000) for turn in chat(draw) for s in re.split(r"(?<=[.?!]) ", turn.text)}
        text = "\n".join(sentences)
        forms = [form for subject in SUBJECTS for form in (subject.statement, subject.direct, subject.reworded)]
        variants = [variant for subject in SUBJECTS for variant in subject.variants for _ in range(3)]
        assert variants
        for subject in SUBJECTS:
            for variant in subject.variants:
                for form in (subject.statement, subject.direct, subject.reworded):
                    pattern = re.escape(form.replace("{s}", variant)).replace(r"\{v\}", r"[\w' &,:-]+")
                    assert not re.search(rf"^{pattern}$", text, re.MULTILINE), form
        assert forms
        for value in (value for kind in CALIBRATED for value in kind.values if " " in value):
            assert value not in text


class TestEncoder:
    @given(st.integers(0, 2**32))
    @settings(max_examples=20, deadline=None)
    def test_is_the_template_of_the_tokenizer(self, seed: int) -> None:
        tokenizer = _TOKENIZER[0]
        encoder = Encoder(tokenizer.backend_tokenizer)
        turns = [turn for turn in chat(random.Random(seed)) if turn.role]
        encoder.texts([turn.text for turn in turns])
        ids, parts = encoder.chat(turns)
        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        assert ids == tokenizer.apply_chat_template(messages, return_dict=False)
        assert len(parts) == len(ids)
        assert tokenizer.decode([i for i, part in zip(ids, parts, strict=True) if part == ANSWER]) == "".join(
            turn.text + "<|im_end|>" for turn in turns if turn.kind in KINDS
        )

    def test_digits_are_single(self, tokenizer: PreTrainedTokenizerFast) -> None:
        assert [t for t in tokenizer.tokenize("flat 40317") if t[-1].isdigit()] == list("40317")

    def test_blocks_hold_whole_chats(self, encoder: Encoder) -> None:
        stage = argparse.Namespace(value=0)
        made = blocks(encoder, random.Random(1), stage, tokens=2112)
        for _ in range(12):
            block = next(made)
            length = block.ids.shape[1]
            assert length in LENGTHS
            assert block.ids.shape[0] == 2112 // length
            assert ((block.parts == PAD) <= (block.ids == 0)).all()
            assert (block.parts[:, 0] == CONTEXT).all()


_TOKENIZER: list[PreTrainedTokenizerFast] = []


@pytest.fixture(scope="module", autouse=True)
def _shared(tokenizer: PreTrainedTokenizerFast) -> None:
    _TOKENIZER.append(tokenizer)


def naive_delta(query, key, value, log_decay, beta):  # token by token
    repeats = value.shape[2] // key.shape[2]
    query, key = query.repeat_interleave(repeats, 2), key.repeat_interleave(repeats, 2)
    state = torch.zeros(*value.shape[:1], *value.shape[2:], key.shape[-1])
    outputs = []
    for t in range(query.shape[1]):
        k, v = key[:, t], value[:, t]
        state = state * log_decay[:, t, :, None, None].exp()
        seen = (state @ k.unsqueeze(-1)).squeeze(-1)
        state = state + (beta[:, t, :, None] * (v - seen)).unsqueeze(-1) * k.unsqueeze(-2)
        outputs.append((state @ query[:, t].unsqueeze(-1)).squeeze(-1) / math.sqrt(key.shape[-1]))
    return torch.stack(outputs, 1)


def naive_mamba2(x, step, rate, write, read, skip):  # token by token
    repeats = x.shape[2] // write.shape[2]
    write, read = write.repeat_interleave(repeats, 2), read.repeat_interleave(repeats, 2)
    state = torch.zeros(*x.shape[:1], *x.shape[2:], write.shape[-1])
    outputs = []
    for t in range(x.shape[1]):
        decay = (step[:, t] * rate).exp()[..., None, None]
        state = state * decay + (step[:, t, :, None] * x[:, t]).unsqueeze(-1) * write[:, t].unsqueeze(-2)
        outputs.append((state @ read[:, t].unsqueeze(-1)).squeeze(-1) + skip[:, None] * x[:, t])
    return torch.stack(outputs, 1)


class TestScans:
    @pytest.mark.parametrize("length", LENGTHS_TRIED)
    def test_delta_rule(self, length: int) -> None:
        torch.manual_seed(length)
        unit = torch.nn.functional.normalize
        query, key = (unit(torch.randn(2, length, 2, 16), dim=-1) for _ in range(2))
        rest = (torch.randn(2, length, 4, 24), -torch.rand(2, length, 4), torch.rand(2, length, 4))
        self.compare(gated_delta_rule, naive_delta, (query, key, *rest))

    def test_delta_rule_where_every_key_is_the_same(self) -> None:
        key = torch.zeros(1, 128, 1, 16)
        key[..., 3] = 1.0
        rest = (torch.randn(1, 128, 1, 16), torch.zeros(1, 128, 1), torch.ones(1, 128, 1))
        self.compare(gated_delta_rule, naive_delta, (key, key, *rest))

    @pytest.mark.parametrize("length", LENGTHS_TRIED)
    def test_mamba2(self, length: int) -> None:
        torch.manual_seed(length)
        step, rate = torch.rand(2, length, 4), -torch.rand(4) * 8
        write, read = torch.randn(2, length, 2, 16), torch.randn(2, length, 2, 16)
        arguments = (torch.randn(2, length, 4, 24), step, rate, write, read, torch.randn(4))
        self.compare(mamba2_scan, naive_mamba2, arguments)

    def compare(self, fast, slow, arguments) -> None:
        arguments = [argument.clone().requires_grad_() for argument in arguments]
        results = []
        for form in (fast, slow):
            output = form(*arguments)
            torch.manual_seed(0)
            towards = torch.randn_like(output)
            results.append([output, *torch.autograd.grad((output * towards).sum(), arguments)])
        for one, other in zip(*results, strict=True):
            assert torch.isfinite(one).all()
            # Where the gradient is exactly nothing, what is left is the rounding of its summands.
            assert (one - other).norm() <= 1e-4 * other.norm() + 1e-4


@pytest.mark.parametrize("arch", ARCHITECTURES)
class TestModels:
    def test_the_export_is_the_same_model(self, arch: str, tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
        torch.manual_seed(3)
        raw = raw_config(arch, tiny=True)
        model = Hybrid(config_of(raw))
        with torch.no_grad():
            for parameter in model.parameters():
                # Away from the values at which a wrong name or a lost offset would not show; then as bf16 stores it.
                parameter += 0.1 * torch.randn_like(parameter) if parameter.dim() == 1 else 0.0
                parameter.copy_(parameter.bfloat16().float())
        save(model, raw, tokenizer, tmp_path)
        loaded, report = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, output_loading_info=True)
        assert not any(report.values())
        ids = torch.randint(0, VOCAB_SIZE, (2, 130))
        with torch.no_grad():
            torch.testing.assert_close(model(ids), loaded(ids).logits, rtol=1e-4, atol=1e-4)
        assert AutoTokenizer.from_pretrained(tmp_path)("a 12").input_ids == tokenizer("a 12").input_ids

    def test_size(self, arch: str) -> None:
        num = sum(weight.numel() for weight in Hybrid(config_of(raw_config(arch))).named_weights().values())
        assert num < 6.2e6

    def test_twenty_steps(
        self, arch: str, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / arch
        out.mkdir()
        save_tokenizer(tokenizer, out)
        monkeypatch.setattr(training, "Workers", InProcess)
        options = argparse.Namespace(arch=arch, minutes=60.0, out=out, device="cpu", resume=None, rate=1e-2, seed=0)
        options.__dict__.update(workers=0, block_tokens=1408, eval_num=2, backend="", tiny=True)
        run = training.Run(options)
        losses = []
        for _ in range(20):
            ids, parts = training.Feed(run.workers, "cpu").next()
            loss = training.loss_of(run.model, ids, parts, run.weights, torch.float32)
            loss.backward()
            run.optimizer.step()
            run.optimizer.zero_grad()
            losses.append(loss.item())
        assert sum(losses[-4:]) < 0.95 * sum(losses[:4])
        run.step = 20
        run._report(Held(run.encoder, num=2, seed=1, device="cpu"), "")
        options.resume = run.state_file
        again = training.Run(options)
        assert again.step == 20
        for one, other in zip(run.model.parameters(), again.model.parameters(), strict=True):
            assert torch.equal(one, other)
        loaded = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
        assert score(loaded, run.encoder, "fact", "seen", num=2, seed=0) == (0, 0)


class InProcess:
    """Stands for the worker processes: blocks are made when they are asked for."""

    def __init__(self, tokenizer: str, num: int, seed: int, *, tokens: int) -> None:
        from tokenizers import Tokenizer

        self.easy = mp.get_context("fork").Value("b", 1)
        self.made = blocks(Encoder(Tokenizer.from_str(tokenizer)), random.Random(seed), self.easy, tokens=tokens)
        self.queue = self

    def get_nowait(self):
        return next(self.made)


def test_a_value_is_not_found_inside_another() -> None:
    assert contains("Lena, so Melk.", "Melk")
    assert not contains("471.", "47")
    assert not contains("Melkport.", "Melk")
