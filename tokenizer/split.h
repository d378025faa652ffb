// Split rules: how a text is cut into the words that merges stay within.
#ifndef PALAVER_TOKENIZER_SPLIT_H
#define PALAVER_TOKENIZER_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/status.h"

typedef struct SplitRules SplitRules; // steps, each cuts what the one before left whole

// What becomes of a match, in the words of the tokenizers package.
typedef enum SplitBehavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
} SplitBehavior;

// When a step puts its prefix in front of a text that does not begin with it.
typedef enum SplitPrefix { SPLIT_PREFIX_NEVER, SPLIT_PREFIX_FIRST, SPLIT_PREFIX_ALWAYS } SplitPrefix;

// The well-known rules, as regular expressions of the tokenizers package (Oniguruma's syntax).
#define SPLIT_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define SPLIT_BLOOM " ?[^(\\s|[.,!?…。，、।۔،])]+"
#define SPLIT_LLAMA3                                                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SPLIT_QWEN2                                                                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"      \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SPLIT_DIGIT "\\p{N}"

Status split_rules_open(SplitRules **out, Error *error);
void split_rules_close(SplitRules *rules); // NULL is fine

// A step that cuts at the matches of a pattern (at what is between them if `invert`).
Status split_rules_add_regex(SplitRules *rules, const char *pattern, size_t size, SplitBehavior behavior,
                             bool invert, Error *error);
// The same for a literal text.
Status split_rules_add_literal(SplitRules *rules, const char *text, size_t size, SplitBehavior behavior,
                               bool invert, Error *error);
// A step that replaces spaces by `space` (may be " ") and puts it in front; the texts are short: at most 8 bytes.
Status split_rules_add_prefix(SplitRules *rules, const char *space, size_t size, SplitPrefix when,
                              Error *error);

// Called for each word, in order; not empty. Anything but STATUS_OK ends the splitting and is returned.
typedef Status (*SplitWord)(void *context, const char *word, size_t size, Error *error);

// Where a text stands: at the beginning of a sequence, after other tokens, or right after bytes of the same text
// that are no UTF-8, where no prefix belongs.
typedef enum SplitPlace { SPLIT_AT_START, SPLIT_AFTER_TOKENS, SPLIT_INSIDE_TEXT } SplitPlace;

// Splits valid UTF-8 that stands at `place`. STATUS_UNSUPPORTED if a pattern exceeds its limits on this text.
Status split_rules_run(const SplitRules *rules, const char *text, size_t size, SplitPlace place,
                       SplitWord word, void *context, Error *error);

// Translates a pattern from Oniguruma's syntax, as the tokenizers package reads it, to PCRE2's: \s and \w by
// Unicode's properties, \p{Han} as a script. *out is owned by the caller. STATUS_UNSUPPORTED names what PCRE2
// would read differently.
Status split_pattern_translate(const char *pattern, size_t size, char **out, size_t *out_size, Error *error);

#endif
