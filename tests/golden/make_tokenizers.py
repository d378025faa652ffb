"""Trains the small tokenizers in tests/golden/tokenizers and records what the reference packages make of 12,000 texts.

    python3 tests/golden/make_tokenizers.py

    strings.bin     u32 count of valid texts, u32 count of texts that are no UTF-8, then u16 length and bytes of each
    NAME/           the tokenizer as a Hugging Face folder
    NAME/vocab.json the same vocabulary as a GGUF file carries it (SentencePiece only; others follow from tokenizer.json)
    NAME/ids.bin    per text the low 32 bits of FNV-1a (64 bit) over its ids, each as four bytes, low first; 0 where a
                    unigram model has two best ways, which the library's versions choose from differently
    NAME/ids.txt    the ids of the first texts, for failures that can be read
    NAME/special.bin  hashes likewise for FIRST + text i + LAST + text i+1, i < 2000, special tokens recognised
"""
import io
import json
import os
import struct
import sys

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, os.path.dirname(__file__))
import make_strings  # noqa: E402

HERE = os.path.join(os.path.dirname(__file__), "tokenizers")
N_READABLE = 100
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def fnv(ids):
    h = 0xCBF29CE484222325
    for i in ids:
        for b in struct.pack("<I", i):
            h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h & 0xFFFFFFFF


def write_ids(name, encode, texts):
    all_ids = [encode(t) for t in texts]
    with open(f"{HERE}/{name}/ids.bin", "wb") as f:
        f.write(b"".join(struct.pack("<I", 0 if ids is None else fnv(ids)) for ids in all_ids))
    with open(f"{HERE}/{name}/ids.txt", "w") as f:
        f.writelines(" ".join(map(str, ids or ())) + "\n" for ids in all_ids[:N_READABLE])
    print(f"  {name}: {len(texts)} texts, {sum(len(ids or ()) for ids in all_ids)} ids, {all_ids.count(None)} left open")


def write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def byte_level(name, pre, valid, normalizer=None, ignore_merges=False, specials=("<|endoftext|>",), merges_as_text=False):
    os.makedirs(f"{HERE}/{name}", exist_ok=True)
    tok = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(make_strings.corpus(), trainers.BpeTrainer(
        vocab_size=1000, special_tokens=list(specials), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tok.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("<keep>", lstrip=True, rstrip=True, normalized=True),
                    AddedToken("##", single_word=True, normalized=False)])
    tok.save(f"{HERE}/{name}/tokenizer.json")
    data = json.load(open(f"{HERE}/{name}/tokenizer.json"))
    if merges_as_text:
        data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
    write_json(f"{HERE}/{name}/tokenizer.json", data)
    reference(name, valid, specials)


def reference(name, valid, specials):
    """What the package says: with special tokens taken as text, as for what people type, and recognised."""
    tok = Tokenizer.from_file(f"{HERE}/{name}/tokenizer.json")
    tok.encode_special_tokens = True
    encode = lambda t: tok.encode(t.decode(), add_special_tokens=False).ids
    write_ids(name, encode, valid)
    tok.encode_special_tokens = False
    first, last = specials[0].encode(), specials[-1].encode()
    with open(f"{HERE}/{name}/special.bin", "wb") as f:
        for i in range(2000):
            f.write(struct.pack("<I", fnv(encode(first + valid[i] + last + valid[i + 1]))))


def without_paths(model):
    """A serialized model without the path of the file its rules came from (needs the protobuf package)."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    return proto.SerializeToString()


def train_sentencepiece(name, valid, broken, vocabulary=1000, **options):
    os.makedirs(f"{HERE}/{name}", exist_ok=True)
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(make_strings.corpus()), model_writer=out, vocab_size=vocabulary, num_threads=1,
        minloglevel=2, hard_vocab_limit=False, max_sentencepiece_length=12, **options)
    with open(f"{HERE}/{name}/tokenizer.model", "wb") as f:
        f.write(without_paths(out.getvalue()))
    sp = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    encode = encode_unless_tied(sp) if options["model_type"] == "unigram" else sp.encode
    write_ids(name, encode, valid + broken)
    return sp


def encode_unless_tied(sp):
    def encode(text):
        best = [sum(map(sp.get_score, ids)) for ids in sp.nbest_encode(text, nbest_size=2)] if text else []
        return None if len(best) == 2 and abs(best[0] - best[1]) < 1e-3 else sp.encode(text)

    return encode


def charsmap(model):
    """Field 2 of field 3 (normalizer_spec) of a serialized ModelProto."""

    def varint(data, at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                return value, at

    def fields(data):
        at = 0
        while at < len(data):
            key, at = varint(data, at)
            if key & 7 == 0:
                value, at = varint(data, at)
            else:
                size, at = varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
                value, at = data[at:at + size], at + size
            yield key >> 3, value

    return next(v for n, spec in fields(model) if n == 3 for m, v in fields(spec) if m == 2)


def write_vocab(name, sp, model, **more):
    """The GGUF view. Kinds as in GGUF: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte."""
    user = more.pop("user", ())
    n = sp.get_piece_size()
    kind = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 5 if sp.is_unused(i)
            else 4 if sp.id_to_piece(i) in user else 1 for i in range(n)]
    pieces = [sp.id_to_piece(i) for i in range(n)]
    scores = [sp.get_score(i) for i in range(n)]
    write_json(f"{HERE}/{name}/vocab.json", dict(model=model, pieces=pieces, scores=scores, types=kind, **more))


def llama_json(name, sp, valid, legacy):
    """The tokenizer.json that a SentencePiece BPE model is converted to: merges from the pieces, best score first."""
    os.makedirs(f"{HERE}/{name}", exist_ok=True)
    n = sp.get_piece_size()
    vocab = {sp.id_to_piece(i): i for i in range(n)}
    merges = []
    for piece, i in vocab.items():
        if sp.is_control(i) or sp.is_byte(i) or sp.is_unknown(i):
            continue
        pairs = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in vocab and piece[k:] in vocab]
        merges += [(-sp.get_score(i), vocab[a], vocab[b], a, b) for a, b in pairs]
    merges.sort()
    tok = Tokenizer(models.BPE(vocab, [(a, b) for *_, a, b in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if legacy:
        tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.add_special_tokens(["<unk>", "<s>", "</s>"])
    tok.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("<keep>", normalized=True)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    tok.save(f"{HERE}/{name}/tokenizer.json")
    write_json(f"{HERE}/{name}/tokenizer.json", json.load(open(f"{HERE}/{name}/tokenizer.json")))
    reference(name, valid, ["<s>", "</s>"])


def write_charsmap_rules(path):
    """A small character map, as the library compiles it from code points to code points."""
    with open(path, "w") as f:
        for a, b in [("ﬁ", "fi"), ("ﬂ", "fl"), ("…", "..."), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("²", "2")]:
            f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
        for i in range(0x21, 0x5F):
            f.write(f"{0xFEE0 + i:X}\t{i:X}\n")


def fuzz_seeds(rules):
    """Tiny models for fuzz_tokenizer_model to begin with."""
    folder = os.path.join(os.path.dirname(__file__), "../fuzz/corpus/fuzz_tokenizer_model")
    os.makedirs(folder, exist_ok=True)
    for kind, size, more in (("bpe", 320, dict(byte_fallback=True, normalization_rule_name="identity")),
                             ("unigram", 60, dict(normalization_rule_tsv=rules))):
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([" ".join(make_strings.WORDS)] * 20), model_writer=out, vocab_size=size, num_threads=1,
            minloglevel=2, hard_vocab_limit=False, model_type=kind, user_defined_symbols=["<keep>"], **more)
        with open(f"{folder}/{kind}.model", "wb") as f:
            f.write(without_paths(out.getvalue()))


def main():
    os.makedirs(HERE, exist_ok=True)
    valid, broken = make_strings.strings()
    with open(f"{HERE}/strings.bin", "wb") as f:
        f.write(struct.pack("<II", len(valid), len(broken)))
        f.write(b"".join(struct.pack("<H", len(t)) + t for t in valid + broken))
    level = pre_tokenizers.ByteLevel
    byte_level("gpt2", level(add_prefix_space=False), valid, merges_as_text=True)
    byte_level("smollm", pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level(add_prefix_space=False)]),
               valid, specials=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    split = lambda r: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r), "isolated", invert=False),
                                               level(add_prefix_space=False, use_regex=False)])
    byte_level("llama3", split(LLAMA3), valid, ignore_merges=True, specials=["<|begin_of_text|>", "<|eot_id|>"])
    byte_level("bloom", split(BLOOM), valid, specials=["<s>", "</s>"])
    byte_level("qwen2", split(QWEN2), valid, normalizer=normalizers.NFC(), specials=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])

    sp = train_sentencepiece("sp-bpe", valid, broken, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                             remove_extra_whitespaces=False, character_coverage=0.98, split_digits=True, vocabulary=1400,
                             user_defined_symbols=["<keep>"], allow_whitespace_only_pieces=True)
    write_vocab("sp-bpe", sp, "llama", bos=1, eos=2, unk=0, user=["<keep>"])
    llama_json("llama2", sp, valid, legacy=True)
    llama_json("mistral", sp, valid, legacy=False)
    rules = f"{HERE}/rules.tsv"
    write_charsmap_rules(rules)
    sp = train_sentencepiece("sp-unigram", valid, broken, model_type="unigram", normalization_rule_tsv=rules,
                             character_coverage=0.99)
    fuzz_seeds(rules)
    os.remove(rules)
    model = open(f"{HERE}/sp-unigram/tokenizer.model", "rb").read()
    write_vocab("sp-unigram", sp, "t5", bos=1, eos=2, unk=0, charsmap=list(charsmap(model)))
    with open(f"{HERE}/provenance.txt", "w") as f:
        f.write(f"make_tokenizers.py with sentencepiece {sentencepiece.__version__}, tokenizers {tokenizers.__version__}\n")


if __name__ == "__main__":
    main()
