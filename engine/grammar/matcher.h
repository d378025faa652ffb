// A reply on its way through a grammar, and the tokens that may come next (masks.h).
#ifndef PALAVER_ENGINE_GRAMMAR_MATCHER_H
#define PALAVER_ENGINE_GRAMMAR_MATCHER_H

#include "engine/grammar/grammar.h"
#include "engine/grammar/vocabulary.h"

typedef struct Matcher Matcher;

// At the beginning of a text. `ends` [n_ends] (kept by reference) are the tokens that end a reply: they fit where the
// text may end.
Status matcher_open(Grammar *grammar, Vocabulary *vocabulary, const int32_t *ends, int n_ends, Matcher **out,
                    Error *error);
void matcher_close(Matcher *matcher); // NULL is fine

// Goes on by bytes [n]. STATUS_USAGE: they do not fit; the matcher is where they stopped fitting.
Status matcher_accept(Matcher *matcher, const char *bytes, size_t n, Error *error);
// A bit for each of the model's ids: whether the token may come after `previous` (−1: at a beginning). *mask is good
// until the next call. STATUS_UNSUPPORTED: no token fits, or finding them takes too much memory.
Status matcher_mask(Matcher *matcher, int32_t previous, const uint32_t **mask, Error *error);

// Stands where another one of the same grammar and vocabulary does.
void matcher_follow(Matcher *matcher, const Matcher *other);

bool matcher_may_end(const Matcher *matcher);
bool matcher_must_end(const Matcher *matcher); // nothing fits but the end

#endif
