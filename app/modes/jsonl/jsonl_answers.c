#include "app/modes/jsonl/jsonl_answers.h"

#include "kernels/base/array.h"

#include <stdlib.h>
#include <string.h>

static Status write_answer(JsonlAnswers *a, JsonlLine *line, Error *error) {
    char *answer = jsonl_line_answer(line);
    Status status = answer ? screen_reply(a->screen, SCREEN_NORMAL, answer, strlen(answer), error)
                           : error_set(error, STATUS_MEMORY, "out of memory");
    free(answer);
    if (status) {
        a->unwritten = line->line;
        return status;
    }
    a->n_written++;
    if (line->error.status == STATUS_MEMORY)
        a->n_failed++;
    else if (line->error.status)
        a->n_wrong++;
    else if (line->item.status == STATUS_CONTEXT)
        a->n_refused++;
    else if (line->item.status)
        a->n_failed++;
    return STATUS_OK;
}

static Status hold(JsonlAnswers *a, JsonlLine *line, Error *error) {
    if (!array_reserve(&a->held, sizeof *a->held, (size_t)a->n_held, 1, &a->held_room)) {
        a->unwritten = line->line;
        return error_set(error, STATUS_MEMORY, "out of memory");
    }
    int at = a->n_held++;
    for (; at > 0 && a->held[at - 1]->number > line->number; at--) a->held[at] = a->held[at - 1];
    a->held[at] = line;
    return STATUS_OK;
}

// Writes what is held up to the first that is missing; or, at an end before the end, all of it.
static Status write_held(JsonlAnswers *a, bool all, Error *error) {
    int n = 0;
    Status status = STATUS_OK;
    for (; n < a->n_held && !status && (all || a->held[n]->number == a->next); n++) {
        status = write_answer(a, a->held[n], error);
        a->next = a->held[n]->number + 1;
        jsonl_line_free(a->held[n]);
    }
    a->n_held -= n;
    if (n > 0) memmove(a->held, a->held + n, (size_t)a->n_held * sizeof(JsonlLine *));
    return status;
}

Status jsonl_answers_deliver(JsonlAnswers *a, JsonlLine *line, Error *error) {
    if (a->ordered) {
        Status status = hold(a, line, error);
        if (status) jsonl_line_free(line);
        return status ? status : write_held(a, false, error);
    }
    Status status = write_answer(a, line, error);
    jsonl_line_free(line);
    return status;
}

Status jsonl_answers_flush(JsonlAnswers *a, Error *error) {
    return write_held(a, true, error);
}

bool jsonl_answers_full(const JsonlAnswers *a) {
    return a->n_held >= JSONL_ANSWERS_HELD;
}

void jsonl_answers_free(JsonlAnswers *a) {
    free(a->held);
}

void jsonl_answers_sum_up(const JsonlAnswers *a, long long n_drawn, double seconds) {
    const struct {
        long long n;
        const char *what;
    } lacking[] = {{a->n_refused, "refused by the context"}, {a->n_failed, "failed"}, {a->n_wrong, "wrong"}};
    char more[120] = "";
    for (int i = 0; i < 3; i++)
        if (lacking[i].n)
            snprintf(more + strlen(more), sizeof more - strlen(more), ", %lld %s", lacking[i].n,
                     lacking[i].what);
    screen_notice(a->screen, "[%lld answered%s; %lld tokens in %.1f s, %.1f tok/s]",
                  a->n_written - a->n_refused - a->n_failed - a->n_wrong, more, n_drawn, seconds,
                  seconds > 0 ? (double)n_drawn / seconds : 0);
}
