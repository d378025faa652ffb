// Split rules: how a text is cut into the words that merges stay within.
#ifndef PALAVER_TOKENIZER_SPLIT_H
#define PALAVER_TOKENIZER_SPLIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
// What the tokenizers package's Punctuation takes for it: ASCII's, and Unicode's as of version 8: what came later is
// none to it, and two that have become something else since are.
#define SPLIT_PUNCTUATION                                                                                    \
    "(?![\\x{1B4E}\\x{1B4F}\\x{1B7F}\\x{10D6E}\\x{113D4}\\x{113D5}\\x{113D7}\\x{113D8}\\x{11B00}-\\x{11B09}" \
    "\\x{11BE1}"                                                                                             \
    "\\x{11F43}-\\x{11F4F}\\x{16D6D}-\\x{16D6F}\\x{1E5FF}\\x{61D}\\x{9FD}\\x{A76}\\x{C77}\\x{C84}\\x{1B7D}"  \
    "\\x{1B7E}\\x{2E43}-\\x{2E4F}\\x{2E52}-"                                                                 \
    "\\x{2E5D}\\x{10EAD}\\x{10F55}-\\x{10F59}\\x{10F86}-\\x{10F89}\\x{1144B}-\\x{1144F}\\x{1145A}"           \
    "\\x{1145B}\\x{1145D}\\x{11660}-\\x{1166C}\\x{116B9}\\x{1183B}\\x{11944}-\\x{11946}\\x{119E2}"           \
    "\\x{11A3F}-\\x{11A46}\\x{11A9A}-\\x{11A9C}\\x{11A9E}-\\x{11AA2}\\x{11C41}-\\x{11C45}\\x{11C70}"         \
    "\\x{11C71}\\x{11EF7}\\x{11EF8}\\x{11FFF}\\x{12FF1}\\x{12FF2}\\x{16E97}-\\x{16E9A}\\x{16FE2}"            \
    "\\x{1E95E}\\x{1E95F}])[\\p{P}$+<=>^`|~\\x{166D}\\x{111C9}]"

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

// From here on steps read GPT-2's stand-ins of bytes (byte_level.h) instead of the text, as what comes after a file's
// ByteLevel does; words are bytes again, and may end within a character. STATUS_UNSUPPORTED if said twice.
Status split_rules_add_byte_level(SplitRules *rules, Error *error);
bool split_rules_byte_level(const SplitRules *rules); // whether it was said

// What splitting one whole text may cost, over all of its patterns and calls: a count of steps, so that the same text
// fails or passes everywhere. A step is one try of one part of a pattern, or one byte that such a try went over.
typedef struct SplitBudget {
    const atomic_int *interrupt; // nonzero ends a long split; NULL: never
    uint64_t left, next_poll;
} SplitBudget;

// A budget for no text yet; every stretch of text adds its share: 4,096 steps a byte, where plain text takes some ten.
SplitBudget split_budget(const atomic_int *interrupt);
void split_budget_add(SplitBudget *budget, size_t bytes);

// Called for each word, in order; not empty. Anything but STATUS_OK ends the splitting and is returned.
typedef Status (*SplitWord)(void *context, const char *word, size_t size, Error *error);

// Where a text stands: at the beginning of a sequence, after other tokens, or right after bytes of the same text
// that are no UTF-8, where no prefix belongs.
typedef enum SplitPlace { SPLIT_AT_START, SPLIT_AFTER_TOKENS, SPLIT_INSIDE_TEXT } SplitPlace;

// Valid UTF-8, where it stands, and what its splitting draws on: several texts of one encoding share a budget.
typedef struct SplitText {
    const char *text;
    size_t size;
    SplitPlace place;
    SplitBudget *budget;
} SplitText;

// Splits a text. STATUS_UNSUPPORTED if the budget does not last for its patterns; STATUS_INTERRUPTED.
Status split_rules_run(const SplitRules *rules, const SplitText *text, SplitWord word, void *context,
                       Error *error);

// Translates a pattern from Oniguruma's syntax, as the tokenizers package reads it, to PCRE2's: \s, \w and \b by
// Unicode's properties, \p{Han} as a script, [a&&[^b]] as a class behind a condition. *out is owned by the caller.
// STATUS_UNSUPPORTED names what PCRE2 would read differently.
Status split_pattern_translate(const char *pattern, size_t size, char **out, size_t *out_size, Error *error);

#endif
