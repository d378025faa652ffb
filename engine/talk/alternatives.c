#include "engine/talk/alternatives.h"

#include "engine/talk/conversation_internal.h"
#include "kernels/cpu/sample/sample.h"
#include "engine/model/model.h"

#include <stdlib.h>

// One row of logits after the tokens ids [n_before]; place->id is set.
static Status fill_place(Conversation *c, const int32_t *ids, int64_t n_before, const float *logits,
                         SampleScratch *scratch, Alternatives *place, Error *error) {
    SampleParams params;
    SampleCandidate candidates[ALTERNATIVES_KEPT];
    sampler_params(c->sampler, ids, n_before, 0, &params);
    Status status =
        sample_candidates(&(SampleRow){logits, engine_model(c->engine)->shape.vocab_size, scratch}, &params,
                          ALTERNATIVES_KEPT, candidates, &place->n, error);
    for (int i = 0; i < place->n; i++)
        place->each[i] = (Alternative){candidates[i].id, candidates[i].raw, candidates[i].final};
    return status;
}

static Status fill_places(Conversation *c, const int32_t *ids, int64_t n_ids, Alternatives *places, int n,
                          Error *error) {
    size_t vocab = (size_t)engine_model(c->engine)->shape.vocab_size;
    float *logits = malloc((size_t)n * vocab * sizeof *logits);
    SampleScratch *scratch = NULL;
    Status status = logits ? sample_scratch_open((int)vocab, &scratch, error)
                           : error_set(error, STATUS_MEMORY, "no memory for %d rows of logits", n);
    // The logits at a position speak of the token after it.
    if (!status) status = session_logits_of(c->session, ids, n_ids - 1, n_ids - 1 - n, logits, error);
    if (!status)
        status =
            sampler_configure(c->sampler, &c->settings.sampler, c->settings.seed, c->settings.stream, error);
    for (int i = 0; i < n && !status; i++) {
        int64_t at = n_ids - n + i;
        places[i].id = ids[at];
        status = fill_place(c, ids, at, logits + (size_t)i * vocab, scratch, &places[i], error);
    }
    sample_scratch_close(scratch);
    free(logits);
    return status;
}

Status alternatives_find(Conversation *c, int n, Alternatives *places, int *count, Error *error) {
    ConversationView view;
    *count = 0;
    if (c->n == 0 || c->messages[c->n - 1].role != CHAT_ASSISTANT || c->messages[c->n - 1].evicted)
        return error_set(error, STATUS_USAGE, "there is no reply whose tokens could be others");
    Status status = conversation_render(c, false, &view, error);
    if (status) return status;
    ChatSpan last = view.spans[view.n_spans - 1];
    int64_t most = last.text_end - (last.text_begin > 1 ? last.text_begin : 1);
    if (n > ALTERNATIVES_TOKENS) n = ALTERNATIVES_TOKENS;
    *count = most < n ? (int)(most > 0 ? most : 0) : n;
    if (*count) status = fill_places(c, view.tokens.ids, last.text_end, places, *count, error);
    conversation_view_free(&view);
    return status;
}
