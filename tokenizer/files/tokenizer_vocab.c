// The vocabulary of a GGUF file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/files/model_proto.h"
#include "tokenizer/split/split_presets.h"

static TokenKind vocab_kind(const TokenizerVocab *vocab, int64_t id) {
    switch (vocab->types ? vocab->types[id] : 1) {
    case 2:
        return TOKEN_UNKNOWN;
    case 3:
        return TOKEN_CONTROL;
    case 4: {
        const TokenText *piece = &vocab->pieces[id];
        return vocabulary_is_control_name(piece->text, piece->size) ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
    }
    case 5:
        return TOKEN_UNUSED;
    case 6:
        return TOKEN_BYTE;
    default:
        return TOKEN_NORMAL;
    }
}

Status tokenizer_load_model_proto(Tokenizer *tokenizer, Text *proto, DummySpace dummy_space, Error *error) {
    ModelProto model;
    Status status = model_proto_read(proto->bytes, proto->size, &model, &tokenizer->vocabulary, error);
    if (status) return status;
    tokenizer->dummy_space = model.add_dummy_prefix ? dummy_space : DUMMY_SPACE_NONE;
    tokenizer->bos = model.bos, tokenizer->eos = model.eos, tokenizer->unk = model.unk,
    tokenizer->pad = model.pad;
    if (tokenizer->dummy_space != DUMMY_SPACE_NONE) {
        status = sentencepiece_open(proto->bytes, proto->size, &tokenizer->spaced, error);
    }
    if (!status && tokenizer->dummy_space != DUMMY_SPACE_EACH) {
        status = model_proto_set_dummy_prefix(proto, false, error);
        if (!status) status = sentencepiece_open(proto->bytes, proto->size, &tokenizer->unspaced, error);
    }
    if (status) return status;
    const SentencePiece *opened = tokenizer->spaced ? tokenizer->spaced : tokenizer->unspaced;
    if (sentencepiece_size(opened) != model.n_pieces) {
        return error_set(error, STATUS_FILE, "the sentencepiece library reads %lld pieces, palaver %lld",
                         (long long)sentencepiece_size(opened), (long long)model.n_pieces);
    }
    snprintf(tokenizer->describe, sizeof tokenizer->describe, "SentencePiece %s",
             model.unigram ? "unigram" : "BPE");
    return vocabulary_spell_sentencepiece(&tokenizer->vocabulary, error);
}

// ---- SentencePiece ------------------------------------------------------------------------------------------------

static Status load_sentencepiece(Tokenizer *tokenizer, const TokenizerVocab *vocab, Error *error) {
    if (!vocab->scores) return error_set(error, STATUS_FILE, "the file's vocabulary has no scores");
    TokenizerVocab whole = *vocab;
    for (int64_t i = 0; i < vocab->n_pieces && whole.unk < 0; i++) {
        if (vocab_kind(vocab, i) == TOKEN_UNKNOWN) whole.unk = (int32_t)i;
    }
    if (whole.unk < 0) whole.unk = 0; // the library wants one; 0 is its own default
    Text proto = {0};
    Status status = model_proto_write(&whole, &proto, error);
    if (!status) status = tokenizer_load_model_proto(tokenizer, &proto, DUMMY_SPACE_EACH, error);
    text_free(&proto);
    tokenizer->bos = tokenizer->eos = tokenizer->pad = -1; // the made-up model's defaults
    tokenizer->unk = whole.unk;
    return status ? status : tokenizer_add_pieces(tokenizer, false, error);
}

// ---- BPE ------------------------------------------------------------------------------------------------------------

static Status load_pieces(Tokenizer *tokenizer, const TokenizerVocab *vocab, bool characters, Error *error) {
    Status status = vocabulary_init(&tokenizer->vocabulary, vocab->n_pieces, error);
    for (int64_t i = 0; i < vocab->n_pieces && !status; i++) {
        const TokenText *piece = &vocab->pieces[i];
        TokenKind kind = vocab_kind(vocab, i);
        tokenizer->vocabulary.pieces[i].added = kind == TOKEN_CONTROL || kind == TOKEN_USER_DEFINED;
        status = vocabulary_set(&tokenizer->vocabulary, (int32_t)i, piece->text, piece->size, kind, error);
    }
    if (status) return status;
    return characters ? vocabulary_spell_sentencepiece(&tokenizer->vocabulary, error)
                      : vocabulary_spell_byte_level(&tokenizer->vocabulary, error);
}

static Status load_merges(Tokenizer *tokenizer, const TokenizerVocab *vocab, const SplitPreset *preset,
                          Error *error) {
    const BpeOptions options = {.byte_level = !preset->characters,
                                .byte_fallback = preset->characters,
                                .fuse_unk = preset->characters,
                                .ignore_merges = preset->ignore_merges,
                                .unk = preset->characters ? vocab->unk : -1};
    if (vocab->n_merges == 0) {
        return error_set(error, STATUS_FILE,
                         "the file's tokenizer has no merges (tokenizer.ggml.merges): every word would fall "
                         "into its characters; use a file that was converted with them");
    }
    Status status = bpe_open(&tokenizer->vocabulary, &options, vocab->n_merges, &tokenizer->bpe, error);
    for (int64_t i = 0; i < vocab->n_merges && !status; i++) {
        const char *text = vocab->merges[i].text;
        size_t size = vocab->merges[i].size;
        const char *space = size > 1 ? memchr(text + 1, ' ', size - 1) : NULL;
        if (!space || space + 1 == text + size) {
            return error_set(error, STATUS_FILE, "merge %lld is no pair", (long long)i);
        }
        size_t left = (size_t)(space - text);
        status = bpe_add_merge(tokenizer->bpe, text, left, space + 1, size - left - 1, error);
    }
    return status;
}

static Status find_preset(Tokenizer *tokenizer, const TokenizerVocab *vocab, const SplitPreset **preset,
                          Error *error) {
    *preset = split_preset_find(!strcmp(vocab->model, "gemma4") ? "gemma4" : vocab->pre);
    if (!*preset) {
        return error_set(
            error, STATUS_UNSUPPORTED,
            "the split rule '%.60s' of this model's tokenizer (tokenizer.ggml.pre) is not known, "
            "and with another one it would read other tokens than it has learnt; use the model "
            "as a Hugging Face folder, whose tokenizer.json says its rule",
            vocab->pre);
    }
    if (!strcmp((*preset)->rule, "default")) {
        tokenizer_tell(
            tokenizer,
            "this file does not say how its tokenizer splits text (tokenizer.ggml.pre): llama.cpp's "
            "default is used, and where it is the wrong one replies get worse; take a newer file of the "
            "model");
    }
    return STATUS_OK;
}

static Status load_bpe(Tokenizer *tokenizer, const TokenizerVocab *vocab, Error *error) {
    const SplitPreset *preset;
    Status status = find_preset(tokenizer, vocab, &preset, error);
    if (status) return status;
    snprintf(tokenizer->describe, sizeof tokenizer->describe, "%s, %s split",
             preset->characters ? "BPE" : "byte-level BPE", preset->rule);
    tokenizer->add_bos = preset->add_bos;
    status = load_pieces(tokenizer, vocab, preset->characters, error);
    if (!status) status = load_merges(tokenizer, vocab, preset, error);
    if (!status) status = split_rules_open(&tokenizer->split, error);
    if (!status && preset->nfc) {
        status = normalizer_add(&tokenizer->normalizer, NORMALIZE_NFC, (TokenText){0}, (TokenText){0}, error);
    }
    if (!status && preset->characters) {
        status = normalizer_add(&tokenizer->normalizer, NORMALIZE_REPLACE, (TokenText){" ", 1},
                                (TokenText){"\u2581", 3}, error);
    }
    bool space_prefix = vocab->add_space_prefix == 1 && !preset->characters;
    if (space_prefix) tokenizer->dummy_space = DUMMY_SPACE_EACH;
    if (!status) status = split_preset_add(preset, space_prefix, tokenizer->split, error);
    return status ? status : tokenizer_add_pieces(tokenizer, true, error);
}

// ---- both ---------------------------------------------------------------------------------------------------------

static Status vocab_check(const TokenizerVocab *vocab, Error *error) {
    if (vocab->n_pieces <= 0 || !vocab->pieces) {
        return error_set(error, STATUS_FILE,
                         "the file has no tokenizer: use one that was converted with its vocabulary");
    }
    const int32_t ids[] = {vocab->bos, vocab->eos, vocab->unk, vocab->pad};
    static const char *const names[] = {"bos", "eos", "unknown", "padding"};
    for (int i = 0; i < 4; i++) {
        if (ids[i] < -1 || ids[i] >= vocab->n_pieces) {
            return error_set(error, STATUS_FILE,
                             "the tokenizer's %s token is %d, its vocabulary has %lld pieces", names[i],
                             ids[i], (long long)vocab->n_pieces);
        }
    }
    return STATUS_OK;
}

static Status vocab_load(Tokenizer *tokenizer, const TokenizerVocab *vocab, Error *error) {
    const char *model = vocab->model ? vocab->model : "(none)";
    bool library = !strcmp(model, "llama") || !strcmp(model, "t5");
    if (!library && strcmp(model, "gpt2") != 0 && strcmp(model, "gemma4") != 0) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "the tokenizer model '%.60s' cannot be used; 'gpt2', 'gemma4', 'llama' and 't5' can",
                         model);
    }
    Status status = vocab_check(vocab, error);
    if (!status) {
        status = library ? load_sentencepiece(tokenizer, vocab, error) : load_bpe(tokenizer, vocab, error);
    }
    if (status) return status;
    if (vocab->bos >= 0) tokenizer->bos = vocab->bos;
    if (vocab->eos >= 0) tokenizer->eos = vocab->eos;
    if (vocab->unk >= 0) tokenizer->unk = vocab->unk;
    if (vocab->pad >= 0) tokenizer->pad = vocab->pad;
    // Files that are silent: SentencePiece models begin with BOS, others as their split rule's makers do. Files of
    // Gemma 4 that say otherwise were converted wrongly.
    bool begins = library || tokenizer->add_bos;
    if (vocab->add_bos >= 0 && strcmp(model, "gemma4") != 0) begins = vocab->add_bos != 0;
    tokenizer->add_bos = tokenizer->bos >= 0 && begins;
    vocabulary_mark_end(&tokenizer->vocabulary, tokenizer->eos);
    for (int i = 0; i < vocab->n_lost; i++) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)vocab->lost[i].id);
        tokenizer_tell_mark(tokenizer, vocab->lost[i].key, number);
    }
    for (int i = 0; i < vocab->n_ends; i++)
        (void)tokenizer_mark_end(tokenizer, vocab->ends[i].key, vocab->ends[i].id);
    vocabulary_mark_named_ends(&tokenizer->vocabulary);
    if (vocab->unknown)
        tokenizer_tell(tokenizer, "the file's tokenizer has keys that palaver does not know: %.150s",
                       vocab->unknown);
    return STATUS_OK;
}

Status tokenizer_open_vocab(const TokenizerVocab *vocab, Tokenizer **out, Error *error) {
    *out = NULL;
    Tokenizer *tokenizer;
    Status status = tokenizer_new(&tokenizer, error);
    if (status) return status;
    status = vocab_load(tokenizer, vocab, error);
    if (status) {
        tokenizer_close(tokenizer);
        return status;
    }
    *out = tokenizer;
    return STATUS_OK;
}
