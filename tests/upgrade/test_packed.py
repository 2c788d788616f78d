"""GPT-OSS as it is released: experts in mxfp4, 4-bit numbers (E2M1) in blocks of 32 with one power of two each."""

import json
import shutil

import torch
from safetensors.torch import load_file, save_file

from tests.tiny import tiny_checkpoint
from v14.models import adapter_for
from v14.upgrade.reading import Reader, quiet_transformers

MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
BLOCK = 32
EXPONENT = -5
BIAS = 127
IDS = list(range(20, 60))


def packed_and_plain(path):
    """Two checkpoints with the same weights, random ones that four bits can say: packed, and as bf16."""
    packed, plain = path / "packed", path / "plain"
    source = tiny_checkpoint("gpt_oss")
    tensors = {name: tensor.bfloat16() for name, tensor in load_file(source / "model.safetensors").items()}
    generator = torch.Generator().manual_seed(0)
    small = {}
    for name in [n for n in tensors if n.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, inputs, outputs = tensors[name].shape
        codes = torch.randint(0, 16, (experts, outputs, inputs), generator=generator, dtype=torch.uint8)
        signs = 1 - 2 * (codes >> 3).float()
        values = signs * MAGNITUDES[(codes & 7).long()] * 2.0**EXPONENT
        tensors[name] = values.transpose(1, 2).bfloat16().contiguous()
        blocks = codes.view(experts, outputs, inputs // BLOCK, BLOCK // 2, 2)
        small[f"{name}_blocks"] = blocks[..., 0] | (blocks[..., 1] << 4)
        small[f"{name}_scales"] = torch.full(blocks.shape[:3], BIAS + EXPONENT, dtype=torch.uint8)
    others = {n: t for n, t in tensors.items() if f"{n}_blocks" not in small}
    for place, weights in ((packed, {**others, **small}), (plain, tensors)):
        shutil.copytree(source, place)
        save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((packed / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (packed / "config.json").write_text(json.dumps(config))
    return packed, plain


def test_packed_experts_are_measured_unpacked(tmp_path):
    found = []
    for checkpoint in packed_and_plain(tmp_path):
        config = json.loads((checkpoint / "config.json").read_text())
        geometry = adapter_for(config).geometry(config)
        with quiet_transformers():
            found.append(Reader(checkpoint, geometry, len(geometry.layers)).read(IDS))
    for packed, plain in zip(*found, strict=True):
        assert packed.keys() == plain.keys()
        for layer in plain:
            assert packed[layer].dtype == torch.float32
            torch.testing.assert_close(packed[layer], plain[layer], atol=1e-5, rtol=0)
