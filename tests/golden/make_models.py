#!/usr/bin/env python3
"""Small random models with known logits, in tests/golden/models/.

Each folder is a Hugging Face model (config.json, safetensors) with golden.json beside it: cases of token ids and
positions, each with a file of float32 logits [n_tokens - from, vocab_size], little-endian, of the positions from
`from` on. The logits come from transformers in float32 with eager attention; half_error is how far transformers' own
logits in 16 bits (the file's type, bfloat16 where that is float32) are from them, relative to the largest: what a GPU
that computes in 16 bits may differ by. llama3.gguf and qwen2.gguf hold the
same weights as the folders of that name, written with the gguf package (LLaMA's Q and K permuted, Llama 3's factors
as rope_freqs.weight). rope.json has transformers' rotary frequencies for nine configurations. blocks.gguf has a
tensor of every block type and, as NAME.values, what gguf.quants makes of it. quants.gguf is a LLaMA whose matrices
have all those types; the logits beside it (quants/) are transformers' with the values gguf.quants makes of them, and
in quants-int8/ what enters a matrix of blocks is rounded first, as fast loops do: in groups of 32, to absmax/127.

Cases "far" and "gap" lie at positions of 40,000 and more. There float32 angles are wrong by up to 5e-4, so the
rotary embedding is replaced by one that computes frequencies and angles in float64 and rounds cos and sin to
float32; everything else is as before. "far" begins at 40,000, "gap" has half its tokens at 0 and half at 40,000.

Weights are drawn with numpy's PCG64 from the seed and the tensor's name: the same on every machine.
It writes the seeds of the fuzzers for the same files too, in tests/fuzz/corpus/.
usage: make_models.py   (needs numpy, torch, transformers, safetensors, gguf; writes models/PROVENANCE.txt)
"""
import json
import math
import os
import shutil
import sys
import zlib

import gguf
import numpy as np
import safetensors
import torch
import transformers
from gguf import GGMLQuantizationType as Q
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

SEED = 20261121
N_TOKENS = 40
FAR = 40000
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")

BASE = dict(hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=128, max_position_embeddings=256, rms_norm_eps=1e-5, hidden_act="silu",
            bos_token_id=1, eos_token_id=2, tie_word_embeddings=False, torch_dtype="float32")
OLD, NEW = "rope_scaling", "rope_parameters"
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)

# name: (config.json beyond BASE, options); rope settings as files of transformers 4 (OLD) or 5 (NEW) have them
MODELS = {
    "llama": (dict(model_type="llama", num_key_value_heads=4, tie_word_embeddings=True, rope_theta=10000.0), ["far"]),
    "llama-linear": (dict(model_type="llama", num_hidden_layers=1, rope_theta=10000.0, **{OLD: dict(type="linear", factor=2.0)}), []),
    "llama3": (dict(model_type="llama", vocab_size=320, rope_theta=50000.0, eos_token_id=[2, 1],
                    num_attention_heads=6, head_dim=8, **{OLD: LLAMA3}), ["far", "tokenizer"]),
    "llama-yarn": (dict(model_type="llama", head_dim=16, num_attention_heads=3, num_key_value_heads=1,
                        **{NEW: dict(rope_theta=10000.0, **YARN)}), ["far"]),
    "mistral": (dict(model_type="mistral", rope_theta=10000.0, sliding_window=7, head_dim=12), []),
    "qwen2": (dict(model_type="qwen2", tie_word_embeddings=True, rope_theta=1000000.0, use_sliding_window=False,
                   sliding_window=8, max_window_layers=1), []),
    "qwen3": (dict(model_type="qwen3", head_dim=16, tie_word_embeddings=True, attention_bias=False,
                   use_sliding_window=True, sliding_window=8, max_window_layers=1,
                   **{NEW: dict(rope_type="default", rope_theta=1000000.0)}), []),
    "llama-sharded": (dict(model_type="llama", num_hidden_layers=1, rope_theta=10000.0, attention_bias=True), ["sharded"]),
    "llama-f16": (dict(model_type="llama", rope_theta=10000.0, torch_dtype="float16"), []),
    "llama-bf16": (dict(model_type="llama", rope_theta=10000.0, torch_dtype="bfloat16"), []),
    "mistral-bf16": (dict(model_type="mistral", rope_theta=10000.0, sliding_window=7, head_dim=16,
                          torch_dtype="bfloat16"), []),
    "qwen2-bf16": (dict(model_type="qwen2", tie_word_embeddings=True, rope_theta=1000000.0, use_sliding_window=False,
                        sliding_window=8, max_window_layers=1, hidden_size=64, torch_dtype="bfloat16"), []),
    "qwen3-bf16": (dict(model_type="qwen3", head_dim=16, tie_word_embeddings=True, attention_bias=False,
                        torch_dtype="bfloat16", **{NEW: dict(rope_type="default", rope_theta=1000000.0)}), []),
}
GENERATION = dict(bos_token_id=1, eos_token_id=[2, 1], do_sample=True, temperature=0.6, top_p=0.9, top_k=20)


def rng_of(*names):
    return np.random.Generator(np.random.PCG64([SEED, *(zlib.crc32(n.encode()) for n in names)]))


def random_weights(model, name):
    """Larger than a fresh model's, so that attention is far from uniform and every part shows in the logits."""
    state = {}
    for key, tensor in model.state_dict().items():
        rng = rng_of(name, key)
        shape = tuple(tensor.shape)
        if "norm" in key:
            value = 1 + 0.3 * rng.standard_normal(shape)
        elif key.endswith("bias") or "sinks" in key:
            value = 0.5 * rng.standard_normal(shape)
        elif "embed" in key:
            value = rng.standard_normal(shape)
        else:
            gain = 2.0 if "q_proj" in key or "k_proj" in key else 1.0
            value = gain * rng.standard_normal(shape) / math.sqrt(shape[1])
        state[key] = torch.from_numpy(value.astype(np.float32))
    if model.config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state


def exact_inv_freq(config):
    """transformers' formulas in float64; checked against its float32 frequencies by the caller."""
    rope = config.rope_parameters
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    freq = rope["rope_theta"] ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    kind = rope["rope_type"]
    if kind == "linear":
        return freq / rope["factor"]
    if kind == "llama3":
        turns = rope["original_max_position_embeddings"] * freq / (2 * math.pi)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        keep = np.clip((turns - low) / (high - low), 0, 1)
        return keep * freq + (1 - keep) * freq / rope["factor"]
    if kind == "yarn":
        def index(turns):
            return dim * math.log(rope["original_max_position_embeddings"] / (turns * 2 * math.pi)) \
                / (2 * math.log(rope["rope_theta"]))
        low, high = max(math.floor(index(32)), 0), min(math.ceil(index(1)), dim - 1)
        ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
        return (1 - ramp) * freq + ramp * freq / rope["factor"]
    return freq


class ExactRope(torch.nn.Module):
    def __init__(self, inner, config):
        super().__init__()
        self.inv_freq = exact_inv_freq(config)
        self.scaling = inner.attention_scaling
        error = np.abs(self.inv_freq / inner.inv_freq.double().numpy() - 1).max()
        assert error < 2e-6, f"float64 frequencies are off by {error}"

    def forward(self, x, position_ids, **_):
        angle = position_ids[0].double().numpy()[:, None] * self.inv_freq[None, :]
        angle = np.concatenate([angle, angle], axis=1)
        return (torch.from_numpy(np.cos(angle) * self.scaling).float()[None],
                torch.from_numpy(np.sin(angle) * self.scaling).float()[None])


class HalfRope(torch.nn.Module):
    """Angles of the float32 model, cos and sin rounded, as transformers does it for a model in 16 bits."""
    def __init__(self, inner, dtype):
        super().__init__()
        self.inner, self.dtype = inner, dtype

    def forward(self, x, position_ids, **_):
        return tuple(part.to(self.dtype) for part in self.inner(x.float(), position_ids))


def logits_of(model, ids, positions):
    with torch.no_grad():
        # An explicit mask: transformers takes a gap in the positions for two packed texts otherwise.
        return model(input_ids=torch.tensor([ids]), position_ids=torch.tensor([positions]), use_cache=False,
                     attention_mask=torch.ones(1, len(ids), dtype=torch.long)).logits[0].float().numpy()


def load_model(config, state, dtype=torch.float32):
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=dtype)
    model.load_state_dict({key: value.to(dtype) for key, value in state.items()}, strict=True)
    return model.eval()


def sensitivity(config_dict, state, ids, plain):
    """How far the logits move when a property is left out: a test against them would notice."""
    moved = {}
    for change in ("rope_scaling", "rope_parameters", "sliding_window", "use_sliding_window"):
        if not config_dict.get(change) or config_dict.get("use_sliding_window") is False:
            continue
        other = dict(config_dict)
        if change == "rope_parameters":
            other[change] = dict(rope_type="default", rope_theta=other[change]["rope_theta"])
            if other[change] == config_dict[change]:
                continue
        else:
            other[change] = False if change == "use_sliding_window" else None
        model = load_model(make_config(other), state)
        difference = logits_of(model, ids, list(range(len(ids)))) - plain
        moved[change] = float(np.abs(difference).max() / np.abs(plain).max())
    return moved


def make_config(config_dict):
    values = {key: value for key, value in config_dict.items() if key not in ("model_type", "torch_dtype")}
    return AutoConfig.for_model(config_dict["model_type"], **json.loads(json.dumps(values)))


def save_weights(folder, state, options):
    if "sharded" not in options:
        save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        return
    names = sorted(state)
    parts = [names[0::2], names[1::2]] # interleaved, so that every layer is spread over both files
    weight_map = {}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05}-of-{len(parts):05}.safetensors"
        save_file({name: state[name] for name in part}, os.path.join(folder, file), metadata={"format": "pt"})
        weight_map.update({name: file for name in part})
    total = sum(t.numel() * t.element_size() for t in state.values())
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, f, indent=1)


def make_model(name, extra, options, report):
    folder = os.path.join(OUT, name)
    os.makedirs(folder)
    config_dict = {**BASE, **extra}
    config = make_config(config_dict)
    dtype = getattr(torch, config_dict["torch_dtype"])
    state = random_weights(load_model_skeleton(config), name)
    saved = {key: value.to(dtype).contiguous() for key, value in state.items()}
    model = load_model(config, saved)
    half = load_model(config, saved, torch.bfloat16 if dtype == torch.float32 else dtype)
    if config.tie_word_embeddings:
        del saved["lm_head.weight"]
    save_weights(folder, saved, options)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"architectures": [type(model).__name__], **config_dict}, f, indent=1)
    with open(os.path.join(folder, "generation_config.json"), "w") as f:
        json.dump(GENERATION, f, indent=1)

    ids = [1] + rng_of(name, "prompt").integers(4, config.vocab_size, N_TOKENS - 1).tolist()
    near = list(range(N_TOKENS))
    positions = {"prompt": near}
    if "far" in options:
        positions["far"] = [FAR + p for p in near]
        positions["gap"] = near[:N_TOKENS // 2] + [FAR + p for p in near[:N_TOKENS // 2]]
    cases = []
    for case, where in positions.items():
        rope = model.model.rotary_emb
        if case != "prompt":
            model.model.rotary_emb = ExactRope(rope, config)
        half.model.rotary_emb = HalfRope(model.model.rotary_emb, half.dtype)
        logits = logits_of(model, ids, where)
        half_error = np.abs(logits_of(half, ids, where) - logits).max() / np.abs(logits).max()
        model.model.rotary_emb = rope
        first = 0 if case == "prompt" else N_TOKENS // 2
        logits[first:].astype("<f4").tofile(os.path.join(folder, f"{case}.logits"))
        cases.append({"name": case, "ids": ids, "positions": where, "from": first, "logits": f"{case}.logits",
                      "half_error": round(float(half_error), 6)})
    with open(os.path.join(folder, "golden.json"), "w") as f:
        json.dump(dict(vocab_size=config.vocab_size, cases=cases), f)
    # The files as they lie there, read again by transformers, give the same logits.
    again = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    prompt = np.fromfile(os.path.join(folder, "prompt.logits"), "<f4").reshape(N_TOKENS, -1)
    assert np.array_equal(logits_of(again, ids, near), prompt), name
    full = {**{k: v.float() for k, v in model.state_dict().items()}}
    moved = sensitivity(config_dict, full, ids, prompt)
    report.append(f"{name}: |logits| <= {np.abs(prompt).max():.3f}"
                  + "".join(f"; without {k} they move by {v:.2g}" for k, v in moved.items()))
    if "tokenizer" in options:
        make_tokenizer(folder)


def load_model_skeleton(config):
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


# ---- a tokenizer for the model that has one: 4 special tokens, 256 bytes, 60 merges -------------------------------

SPECIALS = ["<unk>", "<|endoftext|>", "<|im_end|>", "<|im_start|>"]
WORDS = ("the of and to in is it that for you was on are as with his they be at one have this from or had by hot "
         "but some what there we can out other were all your when up use how").split()
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
          "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def byte_alphabet():
    """GPT-2's printable stand-ins for the 256 bytes."""
    kept = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for byte in range(256):
        table[byte] = chr(byte) if byte in kept else chr(256 + extra)
        extra += byte not in kept
    return [table[byte] for byte in range(256)]


def make_vocab():
    pieces = SPECIALS + byte_alphabet()
    merges = []
    for word in WORDS:
        left = "Ġ"
        for letter in word:
            if len(pieces) == 320:
                break
            if left + letter not in pieces:
                merges.append(f"{left} {letter}")
                pieces.append(left + letter)
            left += letter
    assert len(pieces) == 320
    return pieces, merges


def make_tokenizer(folder):
    pieces, merges = make_vocab()
    added = [dict(id=i, content=text, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
             for i, text in enumerate(SPECIALS)]
    byte_level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    tokenizer = dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
                     pre_tokenizer=byte_level, post_processor=None, decoder=byte_level,
                     model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None,
                                end_of_word_suffix=None, fuse_unk=False, byte_fallback=False, ignore_merges=False,
                                vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges))
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump(tokenizer, f, ensure_ascii=False)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump(dict(tokenizer_class="GPT2Tokenizer", bos_token="<|endoftext|>", eos_token="<|im_end|>",
                       unk_token="<unk>", add_bos_token=False, chat_template=CHATML), f, indent=1)


# ---- frequencies -------------------------------------------------------------------------------------------------

ROPES = [
    dict(head_dim=128, rope_theta=10000.0),
    dict(head_dim=128, rope_theta=10000.0, rope_scaling=dict(type="linear", factor=4.0)),
    dict(head_dim=128, rope_theta=500000.0, max_position_embeddings=131072,  # Llama 3.1
         rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                           original_max_position_embeddings=8192)),
    dict(head_dim=64, max_position_embeddings=131072,  # Llama 3.2, as transformers 5 writes it
         rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0,
                              high_freq_factor=4.0, original_max_position_embeddings=8192)),
    dict(head_dim=128, rope_theta=1000000.0, max_position_embeddings=32768,  # Qwen2.5 with YaRN, as its card says
         rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=32768)),
    dict(head_dim=96, max_position_embeddings=65536,
         rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, beta_fast=16.0, beta_slow=2.0,
                              attention_factor=1.5, original_max_position_embeddings=4096)),
    dict(head_dim=64, max_position_embeddings=163840,  # as DeepSeek has it
         rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, mscale=1.0, mscale_all_dim=0.7,
                              original_max_position_embeddings=4096)),
    dict(head_dim=64, max_position_embeddings=131072,
         rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, truncate=False,
                              original_max_position_embeddings=4096)),
    dict(head_dim=64, max_position_embeddings=8192,  # without an original length it is max_position_embeddings
         rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=2.0)),
]


def make_ropes():
    """What transformers' rotary embedding computes (in float32) from a config.json."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
    rows = []
    for extra in ROPES:
        config_dict = {**BASE, "model_type": "llama", **extra}
        rope = LlamaRotaryEmbedding(make_config(config_dict))
        rows.append(dict(config=config_dict, magnitude=float(rope.attention_scaling),
                         inv_freq=[float(f) for f in rope.inv_freq.double()]))
    with open(os.path.join(OUT, "rope.json"), "w") as f:
        json.dump(rows, f, indent=0)


# ---- GGUF ---------------------------------------------------------------------------------------------------------

GGUF_NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
              "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    if name.startswith("model.layers."):
        _, _, layer, rest = name.split(".", 3)
        stem, kind = rest.rsplit(".", 1)
        return f"blk.{layer}.{GGUF_NAMES[stem]}.{kind}"
    return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
            "lm_head.weight": "output.weight"}[name]


def permute(weight, n_heads):
    """Half-split rotary pairs to interleaved ones, as the converter of llama.cpp does for LLaMA."""
    head = weight.shape[0] // n_heads
    return weight.reshape(n_heads, 2, head // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def make_gguf(name):
    folder = os.path.join(OUT, name)
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    kind = config["model_type"]
    writer = gguf.GGUFWriter(os.path.join(OUT, f"{name}.gguf"), kind)
    writer.add_name(f"palaver golden {name}")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    if kind == "llama":
        writer.add_rope_dimension_count(head_dim)
        writer.add_vocab_size(config["vocab_size"])
        if head_dim * config["num_attention_heads"] != config["hidden_size"]:
            writer.add_key_length(head_dim)
            writer.add_value_length(head_dim)
    add_gguf_vocab(writer, config)
    scaling = config.get("rope_scaling") or {}
    if scaling.get("rope_type") == "llama3":
        made = make_config(config)
        plain = config["rope_theta"] ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
        writer.add_tensor("rope_freqs.weight", (plain / exact_inv_freq(made)).astype(np.float32))
    for key, tensor in load_file(os.path.join(folder, "model.safetensors")).items():
        value = tensor.numpy()
        if kind == "llama" and ".q_proj." in key:
            value = permute(value, config["num_attention_heads"])
        if kind == "llama" and ".k_proj." in key:
            value = permute(value, config["num_key_value_heads"])
        writer.add_tensor(gguf_name(key), np.ascontiguousarray(value))
    finish(writer)


def add_gguf_vocab(writer, config):
    if config["vocab_size"] != 320:
        return
    pieces, merges = make_vocab()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(pieces)
    writer.add_token_types([gguf.TokenType.CONTROL] * len(SPECIALS) + [gguf.TokenType.NORMAL] * (320 - len(SPECIALS)))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_eot_token_id(1)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHATML)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def f16_bytes(values):
    return np.asarray(values, dtype=np.float16).view(np.uint8)


def random_blocks(kind, n_blocks, rng):
    """Random bytes, with scales that are finite: where the block's float16 members lie differs by type."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, (n_blocks, size), dtype=np.uint8)
    blocks[:, 0:2] = f16_bytes(rng.uniform(-0.1, 0.1, n_blocks)).reshape(-1, 2)
    if kind in (Q.Q4_1, Q.Q5_1, Q.Q4_K, Q.Q5_K):
        blocks[:, 2:4] = f16_bytes(rng.uniform(-0.1, 0.1, n_blocks)).reshape(-1, 2)
    if kind in (Q.Q6_K, Q.Q2_K, Q.Q3_K):
        blocks[:, 0:2] = rng.integers(0, 256, (n_blocks, 2), dtype=np.uint8)
        blocks[:, -2:] = f16_bytes(rng.uniform(-0.1, 0.1, n_blocks)).reshape(-1, 2)
    if kind == Q.Q2_K:
        blocks[:, -4:-2] = f16_bytes(rng.uniform(-0.1, 0.1, n_blocks)).reshape(-1, 2)
    return blocks


# What gguf.quants reads and cannot make.
UNQUANTISED = (Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.Q2_K, Q.Q3_K, Q.IQ4_NL, Q.IQ4_XS)


def make_blocks():
    """Shape [3, 512] each: quantised by gguf.quants where it can, else random blocks."""
    writer = gguf.GGUFWriter(os.path.join(OUT, "blocks.gguf"), "blocks")
    writer.add_custom_alignment(64)
    for kind in (Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.Q2_K,
                 Q.Q3_K, Q.IQ4_NL, Q.IQ4_XS, Q.MXFP4):
        name, rng = kind.name.lower(), rng_of("blocks", kind.name)
        if kind in UNQUANTISED:
            raw = random_blocks(kind, 3 * 512 // gguf.GGML_QUANT_SIZES[kind][0], rng).reshape(3, -1)
        else:
            raw = gguf.quants.quantize(rng.standard_normal((3, 512)).astype(np.float32), kind)
        writer.add_tensor(name, raw, raw_dtype=None if kind in (Q.F32, Q.F16) else kind)
        writer.add_tensor(f"{name}.values", gguf.quants.dequantize(raw, kind).astype(np.float32).reshape(3, 512))
    finish(writer)


# Every block type in its place: rows of 64, and of 256 for the K types (w_down alone has them that long).
QUANTS = {"embed_tokens": [Q.Q8_0], "lm_head": [Q.Q5_1], "q_proj": [Q.Q8_0, Q.Q5_0, Q.F16],
          "k_proj": [Q.Q4_1, Q.Q8_0, Q.Q5_0], "v_proj": [Q.Q5_1, Q.Q4_0, Q.Q8_0], "o_proj": [Q.Q4_0, Q.BF16, Q.Q5_1],
          "gate_proj": [Q.Q4_0, Q.Q4_1, Q.Q5_0], "up_proj": [Q.Q5_0, Q.Q4_0, Q.Q4_1],
          "down_proj": [Q.Q4_K, Q.Q5_K, Q.Q6_K]}
# Those of few bits and of codebooks: rows of 256, and of 288 (w_down) for blocks of 32.
FEW_BITS = {"embed_tokens": [Q.Q3_K], "lm_head": [Q.Q2_K], "q_proj": [Q.IQ4_XS, Q.Q2_K], "k_proj": [Q.Q3_K, Q.IQ4_NL],
            "v_proj": [Q.MXFP4, Q.Q3_K], "o_proj": [Q.Q2_K, Q.IQ4_XS], "gate_proj": [Q.IQ4_XS, Q.Q2_K],
            "up_proj": [Q.IQ4_NL, Q.Q2_K], "down_proj": [Q.IQ4_NL, Q.MXFP4]}


def make_quants(name, quants, shape):
    config_dict = {**BASE, "model_type": "llama", "rope_theta": 10000.0, **shape}
    config = make_config(config_dict)
    kind = "llama"
    writer = gguf.GGUFWriter(os.path.join(OUT, f"{name}.gguf"), kind)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    state = random_weights(load_model_skeleton(config), name)
    quantized = set()
    for key, tensor in list(state.items()):
        value = tensor.numpy()
        part = key.split(".")[-2]
        if part not in quants:
            writer.add_tensor(gguf_name(key), value)
            continue
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(part)
        if heads:
            value = np.ascontiguousarray(permute(value, heads))
        layer = int(key.split(".")[2]) if key.startswith("model.layers.") else 0
        quant = quants[part][layer]
        raw = (sane_blocks(quant, value, rng_of(name, key)) if quant in UNQUANTISED else
               gguf.quants.quantize(value, quant))
        writer.add_tensor(gguf_name(key), raw, raw_dtype=None if quant == Q.F16 else quant)
        if quant not in (Q.F16, Q.BF16):
            quantized.add(key)
        value = gguf.quants.dequantize(raw, quant).astype(np.float32).reshape(value.shape)
        state[key] = torch.from_numpy(unpermute(value, heads) if heads else value)
    finish(writer)
    ids = [1] + rng_of(name, "prompt").integers(4, config.vocab_size, N_TOKENS - 1).tolist()
    positions = list(range(N_TOKENS))
    model = load_model(config, state)
    for case in (name, f"{name}-int8"):
        folder = os.path.join(OUT, case)
        os.makedirs(folder)
        logits_of(model, ids, positions).astype("<f4").tofile(os.path.join(folder, "prompt.logits"))
        with open(os.path.join(folder, "golden.json"), "w") as f:
            json.dump({"vocab_size": config.vocab_size, "cases": [
                {"name": "prompt", "ids": ids, "positions": positions, "from": 0, "logits": "prompt.logits"}]}, f)
        for key, module in model.named_modules(): # for the second case
            if isinstance(module, torch.nn.Linear) and key + ".weight" in quantized:
                module.register_forward_pre_hook(round_to_int8)


def round_to_int8(_, inputs):
    groups = inputs[0].unflatten(-1, (-1, 32))
    scale = groups.abs().amax(-1, keepdim=True) / 127
    return ((groups / torch.where(scale == 0, 1, scale)).round() * scale).flatten(-2)


def unpermute(weight, n_heads):
    head = weight.shape[0] // n_heads
    swapped = weight.reshape(n_heads, head // 2, 2, *weight.shape[1:]).swapaxes(1, 2)
    return np.ascontiguousarray(swapped.reshape(weight.shape))


def sane_blocks(kind, value, rng):
    """gguf.quants cannot quantise these types: random blocks whose values have about the size of the weights."""
    rows, cols = value.shape
    first, second, last = slice(0, 2), slice(2, 4), slice(-2, None)
    scales, small = {Q.Q6_K: ((last,), 3e-5), Q.Q2_K: ((slice(-4, -2), last), 4e-3), Q.Q3_K: ((last,), 1e-3),
                     Q.IQ4_NL: ((first,), 1e-3), Q.IQ4_XS: ((first,), 3e-5)}.get(kind, ((first, second), 2e-4))
    blocks = random_blocks(kind, rows * cols // gguf.GGML_QUANT_SIZES[kind][0], rng)
    for scale in scales:
        blocks[:, scale] = f16_bytes(rng.uniform(small / 2, small, len(blocks))).reshape(-1, 2)
    return blocks.reshape(rows, -1)


# ---- seeds of the fuzzers ----------------------------------------------------------------------------------------

def make_corpus():
    """Whole but tiny: a GGUF model of one layer with a vocabulary, a safetensors file, the models' config.json."""
    folder = os.path.join(os.path.dirname(OUT), "..", "fuzz", "corpus")
    for name in ("fuzz_gguf", "fuzz_safetensors", "fuzz_config_json"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        os.makedirs(os.path.join(folder, name))
    for kind in ("llama", "qwen3"):
        tiny_gguf(os.path.join(folder, "fuzz_gguf", f"{kind}.gguf"), kind)
    tensors = {"a": torch.zeros(2, 3), "b": torch.ones(4, dtype=torch.bfloat16), "c": torch.ones(1, dtype=torch.int64)}
    save_file(tensors, os.path.join(folder, "fuzz_safetensors", "three.safetensors"), metadata={"format": "pt"})
    save_file({"x": torch.zeros(1, dtype=torch.float16)}, os.path.join(folder, "fuzz_safetensors", "one.safetensors"))
    for name in MODELS:
        with open(os.path.join(OUT, name, "config.json")) as f:
            text = f.read()
        with open(os.path.join(folder, "fuzz_config_json", name), "w") as f:
            f.write(text + ("\0" + json.dumps(GENERATION) if name in ("llama3", "mistral") else ""))


def tiny_gguf(path, kind):
    rng = rng_of("tiny", kind)
    writer = gguf.GGUFWriter(path, kind)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_key_length(16)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_sliding_window(8)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", "\u2581a"])
    writer.add_token_scores([0.0, 0.0, 0.0, -1.5])
    writer.add_token_types([2, 3, 3, 1])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_space_prefix(True)
    writer.add_chat_template("{{ messages }}")
    if kind == "llama":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(2.0)
        writer.add_tensor("rope_freqs.weight", np.ones(8, dtype=np.float32))
    matrices = {"token_embd": (4, 32), "blk.0.attn_q": (32, 32), "blk.0.attn_k": (16, 32), "blk.0.attn_v": (16, 32),
                "blk.0.attn_output": (32, 32), "blk.0.ffn_gate": (32, 32), "blk.0.ffn_up": (32, 32),
                "blk.0.ffn_down": (32, 32)}
    for i, (name, shape) in enumerate(matrices.items()):
        quant = (Q.Q4_0, Q.Q4_1 if kind == "llama" else Q.MXFP4, Q.Q5_0, Q.Q5_1)[i % 4]
        raw = gguf.quants.quantize(rng.standard_normal(shape).astype(np.float32), quant)
        writer.add_tensor(f"{name}.weight", raw, raw_dtype=quant)
    vectors = ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"]
    for name in vectors + (["blk.0.attn_q_norm", "blk.0.attn_k_norm"] if kind == "qwen3" else []):
        writer.add_tensor(f"{name}.weight", np.ones(16 if "q_norm" in name or "k_norm" in name else 32, dtype=np.float32))
    finish(writer)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    transformers.logging.set_verbosity_error()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    report = []
    for name, (extra, options) in MODELS.items():
        make_model(name, extra, options, report)
    make_ropes()
    make_gguf("llama3")
    make_gguf("qwen2")
    make_blocks()
    make_quants("quants", QUANTS, dict(hidden_size=64, intermediate_size=256, num_hidden_layers=3))
    make_quants("few-bits", FEW_BITS, dict(hidden_size=256, intermediate_size=288))
    make_corpus()
    versions = (f"Python {sys.version.split()[0]}, numpy {np.__version__}, torch {torch.__version__}, "
                f"transformers {transformers.__version__}, safetensors {safetensors.__version__}, "
                f"gguf {gguf_version()}")
    with open(os.path.join(OUT, "PROVENANCE.txt"), "w") as f:
        f.write("Made by tests/golden/make_models.py (seed %d) with\n%s.\nRandom weights, no one's data; what the files "
                "are is said at its top.\nRelative to the largest logit:\n  %s\n"
                % (SEED, versions, "\n  ".join(report)))
    print(open(os.path.join(OUT, "PROVENANCE.txt")).read())


def gguf_version():
    from importlib.metadata import version
    return version("gguf")


if __name__ == "__main__":
    main()
