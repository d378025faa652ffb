"""Makes tests/golden/mumbler: a small Mamba 2 with random weights, and the babbler's tokenizer and chat template.

It talks nonsense, always the same for the same seed: what tests of talks with states and without keys need.

    python tests/golden/make_mumbler.py        (torch, transformers; run it after make_babbler.py)
"""

import json
import pathlib
import shutil
import sys

import torch
import transformers

HERE = pathlib.Path(__file__).parent / "mumbler"


def main():
    HERE.mkdir(exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(HERE.parent / "babbler" / name, HERE / name)
    vocab = len(json.loads((HERE / "tokenizer.json").read_text())["model"]["vocab"])
    config = transformers.Mamba2Config(
        vocab_size=vocab, hidden_size=32, num_hidden_layers=2, num_heads=4, head_dim=16, state_size=16, n_groups=2,
        tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )
    torch.manual_seed(1)
    model = transformers.Mamba2ForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            value = torch.randn_like(weight)
            if "norm" in name:
                value = 1 + 0.3 * value
            elif name.endswith(("A_log", "dt_bias")): # states that last for some tokens
                value = value - 1
            elif weight.ndim == 2:
                value = value * (1 if "embed" in name else 2 / weight.shape[1] ** 0.5)
            weight.copy_(value)
    model = model.to(torch.bfloat16)
    model.generation_config.eos_token_id = 2
    model.save_pretrained(HERE, safe_serialization=True)
    (HERE / "PROVENANCE").write_text(
        f"made by tests/golden/make_mumbler.py with Python {sys.version.split()[0]}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}; weights are random (seed 1)\n")


main()
