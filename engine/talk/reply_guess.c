// Tokens of a reply that are guessed: what each is drawn with, and which were right. Under a grammar a second matcher, the
// scout, goes ahead over them, for behind each something else may come.
#include "engine/talk/reply_internal.h"

#include "engine/engine_internal.h"
#include "engine/grammar/vocabulary.h"
#include "engine/session/session_step.h"
#include "engine/talk/conversation_internal.h"
#include "kernels/base/array.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int reply_most_guesses(const Reply *r) {
    const int64_t most = r->conversation->settings.max_tokens;
    return most == 0 || most - r->report->n_reply > INT_MAX ? INT_MAX : (int)(most - r->report->n_reply - 1);
}

// Room for what may come behind each of n guesses, as many words of a mask each, and who finds it.
static Status open_scout(Reply *r, int n, size_t *words, Error *error) {
    Vocabulary *vocabulary;
    Status status = r->scout ? STATUS_OK : reply_open_matcher(r->conversation, &r->scout, error);
    if (!status) status = engine_vocabulary(r->conversation->engine, &vocabulary, error);
    if (status) return status;
    *words = vocabulary_words(vocabulary);
    if (n <= r->n_scouted) return STATUS_OK;
    uint32_t *more = realloc(r->scouted, (size_t)n * *words * sizeof *more);
    if (!more) return error_set(error, STATUS_MEMORY, "no memory for %d masks", n);
    r->scouted = more, r->n_scouted = n;
    return STATUS_OK;
}

// Of n guesses those that fit the grammar and do not end the reply, and what may come behind each.
static Status scout(Reply *r, int *n, SampleParams *params, Error *error) {
    const Conversation *c = r->conversation;
    const Tokenizer *tokenizer = engine_tokenizer(c->engine);
    const int32_t *guesses = session_tokens(c->session) + session_length(c->session);
    int32_t previous = r->previous;
    size_t words = 0;
    Error unfit;
    Status status = open_scout(r, *n, &words, error);
    if (status) return status;
    matcher_follow(r->scout, r->matcher);
    for (int i = 0; i < *n; i++) {
        const uint32_t *mask;
        uint32_t *kept = r->scouted + (size_t)i * words;
        size_t size;
        const char *bytes = tokenizer_bytes(tokenizer, previous, guesses[i], false, &size);
        if (chat_template_is_end(c->chat_template, tokenizer, guesses[i]) ||
            matcher_accept(r->scout, bytes, size, &unfit) ||
            matcher_mask(r->scout, guesses[i], &mask, &unfit)) {
            *n = i;
            break;
        }
        previous = guesses[i];
        params[i + 1].allowed = memcpy(kept, mask, words * sizeof *mask);
    }
    return STATUS_OK;
}

Status reply_guessed_params(Reply *r, int *n, SampleParams *params, Error *error) {
    size_t count = 0;
    for (int i = 0; i <= *n; i++) {
        if (i == 0)
            reply_params(r, params);
        else
            reply_params_behind(r, i, &params[i]);
        const size_t more = (size_t)params[i].n_adjustments;
        if (!array_reserve(&r->adjustments, sizeof *r->adjustments, count, more, &r->adjustments_capacity))
            return error_set(error, STATUS_MEMORY, "no memory for %zu penalties", count + more);
        if (more > 0) memcpy(r->adjustments + count, params[i].adjustments, more * sizeof *r->adjustments);
        count += more;
    }
    count = 0;
    for (int i = 0; i <= *n; count += (size_t)params[i++].n_adjustments)
        params[i].adjustments = r->adjustments + count;
    return r->matcher ? scout(r, n, params, error) : STATUS_OK;
}

Status reply_tokens(Reply *r, int n_guessed, const int32_t *ids, int n, bool *moved, Error *error) {
    const int64_t length = session_length(r->conversation->session);
    Status status = STATUS_OK;
    int i = 0;
    *moved = false;
    r->n_logged = n - 1;
    r->report->n_guessed += n_guessed;
    while (i < n && !status && !r->finished) {
        status = reply_token(r, ids[i++], moved, error);
        if (i < n && !status && !r->finished && session_interrupted(r->conversation->session))
            status = STATUS_INTERRUPTED;
    }
    r->report->n_right += i < n ? i : n - 1;
    if (i < n) session_cut(r->conversation->session, length - r->n_logged);
    r->n_logged = 0;
    return status;
}
