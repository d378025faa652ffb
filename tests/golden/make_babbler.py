"""Makes tests/golden/babbler: a small LLaMA with random weights and a real tokenizer and chat template.

It talks nonsense, always the same for the same seed: what tests of scripts, of the prompt and of overflow need.

    python tests/golden/make_babbler.py        (torch, transformers, tokenizers)
"""

import json
import pathlib
import sys

import tokenizers
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent / "babbler"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = """system user assistant You are a small model that babbles. The quick brown fox jumps over the lazy dog.
What is the capital of France? And of Italy? Please tell me a story about a cat and a king.
Hello there, how are you today? I am fine, thank you. One two three four five six seven eight nine ten.
"""
TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def main():
    HERE.mkdir(exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=384, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    tokenizer.save(str(HERE / "tokenizer.json"))

    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024, rope_theta=10000.0,
        tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, initializer_range=0.6,
    )
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.generation_config.eos_token_id = 2
    model.save_pretrained(HERE, safe_serialization=True)
    (HERE / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>",
         "add_bos_token": False, "chat_template": TEMPLATE}, indent=1) + "\n")
    (HERE / "PROVENANCE").write_text(
        f"made by tests/golden/make_babbler.py with Python {sys.version.split()[0]}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}; weights are random (seed 1)\n")


main()
