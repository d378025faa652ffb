// The logits behind a prompt, where layers recur: another answer to it would else have to read it again from the last mark
// before its end, for a state that has seen the last token does not give what it gave then. One row for all sessions of an
// engine, known by its text.
#include "engine/session/session_internal.h"

#include "kernels/base/checksum.h"

#include <stdlib.h>

static uint64_t text_of(const Session *s) {
    return checksum_of(s->log, (size_t)s->n_log * sizeof *s->log);
}

void session_keep_logits(Session *s) {
    Engine *engine = s->engine;
    KeptLogits *kept = &engine->kept_logits;
    Error ignored; // who wants them later reads again
    const size_t bytes = (size_t)engine->model->shape.vocab_size * sizeof *kept->row;
    if (!engine->cache.states || !session_has_logits(s)) return;
    kept->length = 0;
    if (!kept->row) kept->row = malloc(bytes);
    if (!kept->row ||
        engine->backend->ops->read(engine->backend, kept->row, engine->forward.current, bytes, &ignored))
        return;
    kept->length = s->n_log, kept->text = text_of(s), kept->rope_set = s->sequence.rope_set;
}

bool session_restore_logits(Session *s) {
    Engine *engine = s->engine;
    const KeptLogits *kept = &engine->kept_logits;
    Error ignored;
    const size_t bytes = (size_t)engine->model->shape.vocab_size * sizeof *kept->row;
    if (!engine->cache.states || kept->length == 0 || kept->length != s->n_log ||
        kept->rope_set != s->sequence.rope_set || kept->text != text_of(s))
        return false;
    engine->ahead.of = NULL, engine->rows_ahead = NULL, engine->logits_of = NULL;
    engine->forward.current = engine->forward.logits;
    if (engine->backend->ops->write(engine->backend, engine->forward.current, kept->row, bytes, &ignored))
        return false;
    engine->logits_of = s;
    return true;
}
