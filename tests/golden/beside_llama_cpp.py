#!/usr/bin/env python3
"""Logits of the GGUF files in tests/golden, as llama.cpp makes them, beside transformers' in golden.json.

Each file is written again with what llama.cpp wants to know of a vocabulary (there is none in these files), read in
one batch at the positions of its cases, and the largest difference over the largest logit is printed, with the golden
file's own bound: how far transformers in 16 bits is from transformers in float32. A file that cannot be loaded is
said to be so, each in a process of its own, for llama.cpp ends its process where a check of its own fails.
usage: beside_llama_cpp.py [FILE.gguf …]   (needs numpy, gguf, llama-cpp-python; LLAMA_CPP_LIB_PATH where it is not installed)
"""
import ctypes
import glob
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDERS = ("models", "architectures", "dense", "experts", "latent")


def rewrite(path, to):
    """The same file with a vocabulary of the right size and no words."""
    import gguf
    reader = gguf.GGUFReader(path)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(to, arch)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        if field.name.startswith("tokenizer."):
            continue
        sub = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub)
    rows = next(t for t in reader.tensors if t.name == "token_embd.weight").shape[1]
    writer.add_string("tokenizer.ggml.model", "no_vocab")
    if f"{arch}.vocab_size" not in reader.fields:
        writer.add_uint32(f"{arch}.vocab_size", int(rows))
    if arch == "gpt-oss" and f"{arch}.expert_feed_forward_length" not in reader.fields: # where palaver takes the other's
        writer.add_expert_feed_forward_length(reader.fields[f"{arch}.feed_forward_length"].contents())
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def evaluate(path):
    """Prints a line of JSON: [case, distance, bound] of each case."""
    import llama_cpp as l
    golden = path.removesuffix(".gguf")
    with open(os.path.join(golden, "golden.json")) as f:
        cases = json.load(f)
    said = []
    quiet = l.llama_log_callback(lambda level, text, data: said.append(text.decode().strip()) if level == 4 else None) # ggml: an error
    l.llama_log_set(quiet, None)
    l.llama_backend_init()
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "model.gguf")
        rewrite(path, copy)
        params = l.llama_model_default_params()
        params.use_mmap = False
        model = l.llama_model_load_from_file(copy.encode(), params)
    if not model:
        sys.exit("not loaded: " + (said or ["?"])[0])
    found = []
    for case in cases["cases"]:
        if case["positions"] != list(range(len(case["ids"]))): # llama.cpp takes no gaps
            continue
        options = l.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = 256, 64, 64
        options.type_k = options.type_v = 0 # float32
        options.flash_attn_type = 0
        context = l.llama_init_from_model(model, options)
        ids, n = case["ids"], len(case["ids"])
        batch = l.llama_batch_init(n, 0, 1)
        batch.n_tokens = n
        for i in range(n):
            batch.token[i], batch.pos[i], batch.logits[i] = ids[i], case["positions"][i], 1
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        if l.llama_decode(context, batch):
            sys.exit("not evaluated: " + (said or ["?"])[0])
        vocab = cases["vocab_size"] if "vocab_size" in cases else cases["vocab"]
        logits = np.ctypeslib.as_array(ctypes.cast(l.llama_get_logits(context), ctypes.POINTER(ctypes.c_float)), (n, vocab))
        begin = case.get("from", 0)
        expected = np.fromfile(os.path.join(golden, case["logits"]), np.float32).reshape(n - begin, vocab)
        distance = float(np.abs(logits[begin:] - expected).max() / np.abs(expected).max())
        bound = case.get("half_error")
        found.append([case["name"], distance, bound])
        l.llama_free(context)
    print(json.dumps(found))


def main():
    if sys.argv[1:2] == ["--one"]:
        return evaluate(sys.argv[2])
    paths = sys.argv[1:] or [p for folder in FOLDERS for p in sorted(glob.glob(os.path.join(HERE, folder, "*.gguf")))]
    counts = dict.fromkeys(("agree", "no bound", "beyond", "not loaded"), 0)
    for path in paths:
        name = os.path.relpath(path, HERE)
        if not os.path.exists(os.path.join(path.removesuffix(".gguf"), "golden.json")):
            continue
        run = subprocess.run([sys.executable, __file__, "--one", path], capture_output=True, text=True)
        if run.returncode:
            counts["not loaded"] += 1
            print(f"{name:36} {run.stderr.strip().splitlines()[-1][:150] if run.stderr.strip() else run.returncode}")
            continue
        cases = json.loads(run.stdout.splitlines()[-1])
        worst = max(cases, key=lambda case: case[1] / case[2] if case[2] else case[1])
        bound = worst[2] if worst[2] and not math.isnan(worst[2]) else None
        kind = "no bound" if bound is None else "agree" if worst[1] <= bound else "beyond"
        counts[kind] += 1
        print(f"{name:36} {kind:9} {worst[0]:8} {worst[1]:.1e}" + (f" ({bound:.1e})" if bound else ""))
    print(", ".join(f"{n} {kind}" for kind, n in counts.items()))


if __name__ == "__main__":
    main()
