"""The teacher: SmolLM2-135M-Instruct from its GGUF file, as weights under Hugging Face's names and a tokenizer."""
import gguf
import numpy as np
import tokenizers
import torch

from llama import Shape

SHAPE = Shape(vocab=49152, hidden=576, ffn=1536, layers=30, heads=9, kv_heads=3, head_dim=64, theta=100000.0)
NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def hugging_name(name):
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.weight"


def half_split(weight, heads):
    """GGUF's LLaMA files pair a head's rows for interleaved rotation; back to halves."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def load(path):
    """(Shape, {name: float32 tensor}, tokenizer) of a LLaMA in a GGUF file with a byte-level vocabulary."""
    reader = gguf.GGUFReader(path)

    def field(key):
        return reader.fields[key].contents()

    heads, kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    weights = {}
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        if tensor.name.endswith("attn_q.weight"):
            values = half_split(values, heads)
        if tensor.name.endswith("attn_k.weight"):
            values = half_split(values, kv_heads)
        weights[hugging_name(tensor.name)] = torch.from_numpy(np.array(values, dtype=np.float32))
    hidden = field("llama.embedding_length")
    found = Shape(vocab=len(field("tokenizer.ggml.tokens")), hidden=hidden, ffn=field("llama.feed_forward_length"),
                  layers=field("llama.block_count"), heads=heads, kv_heads=kv_heads, head_dim=hidden // heads,
                  theta=field("llama.rope.freq_base"), eps=SHAPE.eps)
    if found != SHAPE:
        raise SystemExit(f"{path}: {found}, not {SHAPE}")
    return SHAPE, weights, vocabulary(field("tokenizer.ggml.tokens"), field("tokenizer.ggml.merges"))


def vocabulary(pieces, merges):
    model = tokenizers.models.BPE({piece: i for i, piece in enumerate(pieces)}, [tuple(m.split(" ")) for m in merges])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([piece for piece in pieces if piece.startswith("<|") and piece.endswith("|>")])
    return tokenizer
