"""Writes the trained model as a plain Hugging Face folder.

usage: export.py WORK FOLDER [--run NAME]     WORK/NAME/weights.pt, WORK/tokenizer.model → FOLDER/
"""
import argparse
import json
import os
import shutil

import torch
from safetensors.torch import save_file

from settings import CHAT_TEMPLATE, END_ID, IM_END, IM_START, NAME, REPLY_LIMIT, SHAPES, START_ID, TEMPERATURE, TOP_P, UNKNOWN


def config_of(shape):
    return dict(
        architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=shape.vocab, hidden_size=shape.hidden,
        intermediate_size=shape.ffn, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim, max_position_embeddings=shape.context,
        rope_theta=shape.theta, rms_norm_eps=shape.eps, hidden_act="silu", attention_bias=False, mlp_bias=False,
        tie_word_embeddings=True, bos_token_id=START_ID, eos_token_id=END_ID, torch_dtype="bfloat16")


def tokenizer_config():
    special = dict(lstrip=False, rstrip=False, single_word=False, normalized=False, special=True)
    return dict(
        tokenizer_class="LlamaTokenizer", unk_token=UNKNOWN, bos_token=IM_START, eos_token=IM_END, pad_token=IM_END,
        add_bos_token=False, add_eos_token=False, add_prefix_space=False, legacy=False,
        clean_up_tokenization_spaces=False, chat_template=CHAT_TEMPLATE,
        added_tokens_decoder={str(i): dict(content=piece, **special)
                              for i, piece in enumerate((UNKNOWN, IM_START, IM_END))})


# A reply ends by itself; this is for the one that does not.
PALAVER_SETTINGS = f"""# Settings that come with {NAME}; anything you configure yourself comes before them. Temperature and
# top_p stand in generation_config.json.
[sampling]
max_tokens = {2 * REPLY_LIMIT}
"""


def export(work, folder, run):
    os.makedirs(folder, exist_ok=True)
    trained = torch.load(os.path.join(work, run, "weights.pt"), map_location="cpu")
    shape = SHAPES[trained["shape"]]
    weights = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in trained["weights"].items()}
    save_file(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
    shutil.copyfile(os.path.join(work, "tokenizer.model"), os.path.join(folder, "tokenizer.model"))
    generation = dict(bos_token_id=START_ID, eos_token_id=END_ID, pad_token_id=END_ID, do_sample=True,
                      temperature=TEMPERATURE, top_p=TOP_P, max_new_tokens=2 * REPLY_LIMIT)
    for name, content in (("config.json", config_of(shape)), ("generation_config.json", generation),
                          ("tokenizer_config.json", tokenizer_config())):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.write("\n")
    with open(os.path.join(folder, "palaver.toml"), "w", encoding="utf-8") as file:
        file.write(PALAVER_SETTINGS)
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    print(f"{folder}: {shape.parameters():,} parameters, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("work")
    arguments.add_argument("folder")
    arguments.add_argument("--run", default="run")
    export(**vars(arguments.parse_args()))
