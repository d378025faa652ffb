// A decoder in double precision, written from its formulas alone: no cache, no positions, only who sees whom at which
// distance. For tests of what a session still sees after tokens left it (requirement C9).
#ifndef PALAVER_TESTS_ORACLE_H
#define PALAVER_TESTS_ORACLE_H

#include "engine/model/model.h"

// A stream of tokens of which some left. When token i was evaluated, gone[i] tokens after the first `keep` had left:
// it sees token j <= i at the distance i - j if j >= keep + gone[i], and at i - gone[i] - j if j < keep; nothing else.
typedef struct OracleStream {
    const int32_t *ids;  // [n]
    const int32_t *gone; // [n], never falling
    int n, keep;
} OracleStream;

// The logits after each token from `from` on: [n - from, vocab_size].
void oracle_logits(const Model *model, const OracleStream *stream, int from, float *logits);

#endif
