// The split rules that a GGUF file names under tokenizer.ggml.pre.
#ifndef PALAVER_TOKENIZER_SPLIT_PRESETS_H
#define PALAVER_TOKENIZER_SPLIT_PRESETS_H

#include "tokenizer/split/split.h"

enum { MAX_PRESET_STEPS = 6 };

// A step of a rule: a pattern, and what becomes of its matches. An empty pattern is ByteLevel: what follows it reads
// stand-ins of bytes.
typedef struct SplitPresetStep {
    const char *pattern; // NULL behind the last step
    SplitBehavior behavior;
} SplitPresetStep;

typedef struct SplitPreset {
    const char *rule;  // our name for it
    const char *names; // of tokenizer.ggml.pre, each between spaces
    SplitPresetStep steps[MAX_PRESET_STEPS + 1];
    bool ignore_merges; // a word that is a piece is that token
    bool add_bos;       // where the file is silent
    bool nfc;           // the model's own tokenizer normalizes to NFC, which the file does not say
    bool characters;    // no byte-level vocabulary: characters, U+2581 for spaces, bytes as <0x0A>
} SplitPreset;

// The rule of a name as llama.cpp writes it; "default" and NULL or "" are its rule for files without a name. NULL: the
// name is not known.
const SplitPreset *split_preset_find(const char *name);

// Appends the preset's steps to `rules`, with a space in front of every text that has none if `space_prefix`.
Status split_preset_add(const SplitPreset *preset, bool space_prefix, SplitRules *rules, Error *error);

#endif
