// Messages to token ids through the model's own Jinja template.
//
// The template is rendered over the whole conversation. Its own text may hold control pieces, what anyone wrote may
// not; the ids of a reply stand in for its text where that is found again. The runs of the rendered text tell where the
// messages lie.
#include "tokenizer/chat/channels.h"
#include "tokenizer/chat/chat_chunk.h"
#include "tokenizer/chat/chat_template_internal.h"
#include "tokenizer/chat/jinja/space.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

// ---- the context -------------------------------------------------------------------------------------------------

// The text of ids, as a person sees it: without what control tokens look like.
static char *text_of_ids(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, size_t *size) {
    char *text = NULL;
    *size = 0;
    return tokenizer_decode(tokenizer, ids, n, false, &text, size, NULL) ? NULL : text;
}

// A stretch of a reply's ids.
typedef struct Kept {
    int64_t from, to;
} Kept;

// Those of a reply's ids that a template takes for it: without the pieces that ended it, which the template writes
// itself, and of several messages the last that is no thought.
static Kept bare_ids(const ChatTemplate *to, const Tokenizer *tokenizer, const Message *m) {
    int64_t n = m->n_ids;
    Kept kept;
    while (n > 0 && chat_template_is_end(to, tokenizer, m->ids[n - 1])) n--;
    channels_answer(tokenizer, m->ids, n, &kept.from, &kept.to);
    return kept;
}

static bool add_message(const ChatTemplate *to, json_t *list, const Message *m, const Tokenizer *tokenizer,
                        bool by_ids) {
    json_t *message = json_object(), *content;
    if (by_ids && m->ids) {
        size_t size;
        Kept bare = bare_ids(to, tokenizer, m);
        char *text = text_of_ids(tokenizer, m->ids + bare.from, bare.to - bare.from, &size);
        content = text ? json_stringn_nocheck(text, size) : NULL;
        free(text);
    } else {
        TokenText text = {m->text ? m->text : "", m->text ? m->size : 0};
        if (m->role == CHAT_ASSISTANT) text = channels_answer_text(tokenizer, text);
        content = json_stringn_nocheck(text.text, text.size);
    }
    if (to->parts) content = json_pack("[{s:s, s:o}]", "type", "text", "text", content);
    bool failed = json_object_set_new(message, "role", json_string(chat_role_name(m->role)));
    failed = json_object_set_new(message, "content", content) || failed;
    return !json_array_append_new(list, message) && !failed;
}

static bool add_piece(json_t *context, const char *name, const Tokenizer *tokenizer, int32_t id) {
    size_t size;
    const char *piece = id >= 0 ? tokenizer_piece(tokenizer, id, &size) : NULL;
    return !piece || !json_object_set_new(context, name, json_stringn_nocheck(piece, size));
}

const char *const chat_jinja_names[] = {"messages",  "add_generation_prompt",
                                        "tools",     "documents",
                                        "bos_token", "eos_token",
                                        "unk_token", "pad_token",
                                        NULL};

// What transformers gives a template: no tools, no documents, and the pieces that the tokenizer has.
static json_t *make_context(const ChatTemplate *to, const Tokenizer *tokenizer, const ChatTalk *talk,
                            bool by_ids) {
    json_t *context = to->arguments ? json_copy(to->arguments) : json_object(), *list = json_array();
    bool whole = context && list;
    for (int i = 0; i < talk->n && whole; i++)
        whole = add_message(to, list, &talk->messages[i], tokenizer, by_ids);
    whole = !json_object_set_new(context, "messages", list) && whole;
    whole = !json_object_set_new(context, "add_generation_prompt", json_boolean(talk->generation_prompt)) &&
            whole;
    whole = !json_object_set_new(context, "tools", json_null()) && whole;
    whole = !json_object_set_new(context, "documents", json_null()) && whole;
    whole = add_piece(context, "bos_token", tokenizer, tokenizer_bos(tokenizer)) && whole;
    whole = add_piece(context, "eos_token", tokenizer, tokenizer_eos(tokenizer)) && whole;
    whole = add_piece(context, "unk_token", tokenizer, tokenizer_unk(tokenizer)) && whole;
    whole = add_piece(context, "pad_token", tokenizer, tokenizer_pad(tokenizer)) && whole;
    if (whole) return context;
    json_decref(context);
    return NULL;
}

Status chat_jinja_once(const ChatTemplate *to, const Tokenizer *tokenizer, const ChatTalk *talk, bool by_ids,
                       JinjaText *text, Error *error) {
    json_t *context = make_context(to, tokenizer, talk, by_ids);
    if (!context) return error_no_memory(error, "the conversation's text");
    Status status = jinja_render(to->jinja, context, to->now, text, error);
    json_decref(context);
    return status;
}

bool chat_jinja_begins_with_bos(const Tokenizer *tokenizer, const JinjaText *text) {
    size_t size;
    int32_t bos = tokenizer_bos(tokenizer);
    const char *piece = tokenizer_piece(tokenizer, bos, &size);
    return bos >= 0 && text->size >= size && !memcmp(text->data, piece, size);
}

// As tools do: a template that knows nothing of BOS leaves it to the tokenizer.
static bool lacks_bos(const Tokenizer *tokenizer, const JinjaText *text) {
    return tokenizer_bos(tokenizer) >= 0 && tokenizer_add_bos(tokenizer) &&
           !chat_jinja_begins_with_bos(tokenizer, text);
}

// Where a message's text lies in the rendered text; begin is SIZE_MAX where it has none, or stands apart from its
// place.
typedef struct Place {
    size_t begin, end;
    int runs;
} Place;

typedef struct Walk {
    const ChatTemplate *to;
    const Tokenizer *tokenizer;
    const Message *messages; // [n]
    int n;
    const JinjaText *text;
    Place *places;   // [n]
    ChatSpan *spans; // [n]
    Tokens *tokens;
    Chunk chunk;
} Walk;

// ---- replies that are kept as ids --------------------------------------------------------------------------------

static bool all_space(const char *text, size_t size) {
    return space_before(text, size) == size;
}

// The ids that say `part`, which a template left of the reply's text. White space that it took off the ends stays: the
// model wrote it. False where the ids have no border there.
static bool find_ids(const Walk *w, const Message *m, TextSpan part, Kept *kept) {
    size_t whole;
    *kept = bare_ids(w->to, w->tokenizer, m);
    char *text = text_of_ids(w->tokenizer, m->ids + kept->from, kept->to - kept->from, &whole);
    const char *found = NULL;
    // What is left of a reply is its end, for its thoughts are what goes: the last place counts.
    for (const char *at = text; text && part.size; found = at++) {
        at = memmem(at, whole - (size_t)(at - text), part.text, part.size);
        if (!at) break;
    }
    size_t begin = found ? (size_t)(found - text) : 0, end = begin + part.size, at = 0;
    bool there = found && all_space(text + end, whole - end);
    if (there && !all_space(text, begin)) {
        for (int64_t i = kept->from; i < kept->to && at < begin; i++) {
            size_t bytes;
            tokenizer_bytes(w->tokenizer, i > 0 ? m->ids[i - 1] : -1, m->ids[i], false, &bytes);
            at += bytes;
            kept->from = i + 1;
        }
        there = at == begin;
    }
    free(text);
    return there;
}

// ---- runs to ids -------------------------------------------------------------------------------------------------

static void find_places(Walk *w) {
    size_t from = 0, next = SIZE_MAX;
    for (int i = 0; i < w->n; i++) w->places[i] = (Place){SIZE_MAX, 0, 0};
    for (size_t r = 0; r < w->text->n_runs; r++) {
        const JinjaRun *run = &w->text->runs[r];
        if (run->origin >= JINJA_MESSAGE && run->origin - JINJA_MESSAGE < w->n) {
            Place *place = &w->places[run->origin - JINJA_MESSAGE];
            if (!place->runs++) place->begin = from;
            place->end = run->end;
        }
        from = run->end;
    }
    for (int i = w->n - 1; i >= 0; i--) {
        Place *place = &w->places[i];
        if (place->begin >= next)
            place->begin = SIZE_MAX;
        else
            next = place->begin;
        if (place->begin == SIZE_MAX) continue;
        for (int k = i + 1; k < w->n && place->end > next; k++)
            if (w->places[k].begin != SIZE_MAX) {
                if (place->end > w->places[k].begin) place->end = w->places[k].begin;
                break;
            }
    }
}

// The run [from, end) of a message.
static Status add_run(Walk *w, size_t from, size_t end, int message, Error *error) {
    const Message *m = &w->messages[message];
    const Place *place = &w->places[message];
    ChatSpan *span = &w->spans[message];
    Kept kept = {0};
    TextSpan part = {w->text->data + from, end - from, false};
    bool ids = m->ids && place->runs == 1 && find_ids(w, m, part, &kept);
    Status status = STATUS_OK;
    if (from == place->begin) status = chat_chunk_mark(&w->chunk, &span->text_begin, error);
    if (!status && ids) status = chat_chunk_encode(&w->chunk, w->tokenizer, w->tokens, error);
    if (!status && ids)
        status = tokens_append(w->tokens, m->ids + kept.from, kept.to - kept.from, error);
    else if (!status)
        status = chat_chunk_add(&w->chunk, w->text->data + from, end - from, false, error);
    if (!status && end >= place->end && place->begin != SIZE_MAX && from < place->end)
        status = chat_chunk_mark(&w->chunk, &span->text_end, error);
    return status;
}

// Text of the template's, or of a setting. Before a reply's ids, the white space stays away that stands before replies
// in the past but not before one that is to come: what the model said begins with its own.
static Status add_template(Walk *w, size_t r, size_t from, Error *error) {
    const JinjaRun *run = &w->text->runs[r];
    size_t end = run->end;
    int next = r + 1 < w->text->n_runs ? w->text->runs[r + 1].origin - JINJA_MESSAGE : -1;
    if (next >= 0 && next < w->n && w->messages[next].ids && w->to->reply_space <= end - from &&
        all_space(w->text->data + end - w->to->reply_space, w->to->reply_space))
        end -= w->to->reply_space;
    return chat_chunk_add(&w->chunk, w->text->data + from, end - from, run->origin == JINJA_TEMPLATE, error);
}

// Behind the token that ends what was said before `from`, and the ends of lines after it; `from` if none does.
static int64_t border(const Walk *w, int64_t from, int64_t limit) {
    Channels channels;
    channels_find(&channels, w->tokenizer);
    for (int64_t i = from; i < limit; i++) {
        int32_t id = w->tokens->ids[i];
        bool closes = channels.tokenizer && id == channels.end;
        if (!closes && !chat_template_is_end(w->to, w->tokenizer, id)) continue;
        for (i++; i < limit; i++) {
            size_t size;
            const char *bytes =
                tokenizer_bytes(w->tokenizer, w->tokens->ids[i - 1], w->tokens->ids[i], false, &size);
            if (!size || strspn(bytes, "\n") < size) break;
        }
        return i;
    }
    return from;
}

static void close_spans(Walk *w, int64_t before, bool prompt) {
    int64_t at = before;
    int last = -1;
    for (int i = 0; i < w->n; i++) {
        ChatSpan *span = &w->spans[i];
        if (w->places[i].begin == SIZE_MAX) {
            *span = (ChatSpan){at, at, at, at};
            continue;
        }
        int next = i + 1;
        while (next < w->n && w->places[next].begin == SIZE_MAX) next++;
        int64_t limit = next < w->n ? w->spans[next].text_begin : w->tokens->n;
        span->begin = at;
        if (span->text_begin < at) span->text_begin = at;
        if (span->text_end < span->text_begin) span->text_end = span->text_begin;
        span->end = at = border(w, span->text_end, limit > span->text_end ? limit : span->text_end);
        last = i;
    }
    if (prompt || !w->n) return; // without an opening for a reply, everything belongs to somebody
    if (last < 0) last = 0;
    w->spans[last].end = w->tokens->n;
    for (int i = last + 1; i < w->n; i++)
        w->spans[i] = (ChatSpan){w->tokens->n, w->tokens->n, w->tokens->n, w->tokens->n};
}

static Status walk(Walk *w, bool prompt, Error *error) {
    int64_t before = w->tokens->n;
    Status status = STATUS_OK;
    find_places(w);
    if (lacks_bos(w->tokenizer, w->text)) {
        status = tokens_push(w->tokens, tokenizer_bos(w->tokenizer), error);
        w->chunk.at_start = true;
    }
    size_t from = 0;
    for (size_t r = 0; r < w->text->n_runs && !status; from = w->text->runs[r++].end) {
        int message = w->text->runs[r].origin - JINJA_MESSAGE;
        if (message >= 0 && message < w->n)
            status = add_run(w, from, w->text->runs[r].end, message, error);
        else
            status = add_template(w, r, from, error);
    }
    if (!status) status = chat_chunk_encode(&w->chunk, w->tokenizer, w->tokens, error);
    if (!status) close_spans(w, before, prompt);
    return status;
}

// ---- the whole ---------------------------------------------------------------------------------------------------

// Some templates refuse a talk without a question, which is looked at before there is one: it is rendered with one, and
// what comes from the question on is left out again.
static Status render_preview(const ChatTemplate *to, const Tokenizer *tokenizer, const ChatTalk *talk,
                             Tokens *tokens, ChatSpan *spans, Error *error) {
    const int n = talk->n;
    Message *more = malloc(((size_t)n + 1) * sizeof *more);
    ChatSpan *more_spans = malloc(((size_t)n + 1) * sizeof *more_spans);
    Status status = more && more_spans ? STATUS_OK : error_no_memory(error, "the conversation's text");
    if (!status) {
        if (n) memcpy(more, talk->messages, (size_t)n * sizeof *more);
        more[n] = (Message){.role = CHAT_USER, .text = "?", .size = 1};
        status = chat_jinja_render(to, tokenizer, &(ChatTalk){more, n + 1, true}, tokens, more_spans, error);
    }
    if (!status) {
        tokens->n = more_spans[n].begin;
        if (spans && n) memcpy(spans, more_spans, (size_t)n * sizeof *spans);
    }
    free(more);
    free(more_spans);
    return status;
}

Status chat_jinja_render(const ChatTemplate *to, const Tokenizer *tokenizer, const ChatTalk *talk,
                         Tokens *tokens, ChatSpan *spans, Error *error) {
    const Message *messages = talk->messages;
    const int n = talk->n;
    JinjaText text;
    int64_t before = tokens->n;
    Status status = chat_jinja_once(to, tokenizer, talk, true, &text, error);
    if (status && status != STATUS_MEMORY && !talk->generation_prompt &&
        (!n || messages[n - 1].role != CHAT_USER)) {
        Error other;
        return render_preview(to, tokenizer, talk, tokens, spans, &other) ? status : STATUS_OK;
    }
    if (status) return status;
    Walk w = {
        .to = to, .tokenizer = tokenizer, .messages = messages, .n = n, .text = &text, .tokens = tokens};
    w.places = calloc((size_t)n + 1, sizeof *w.places);
    w.spans = calloc((size_t)n + 1, sizeof *w.spans);
    status = w.places && w.spans ? walk(&w, talk->generation_prompt, error)
                                 : error_no_memory(error, "the conversation's text");
    if (status)
        tokens->n = before;
    else if (spans && n)
        memcpy(spans, w.spans, (size_t)n * sizeof *spans);
    free(w.places);
    free(w.spans);
    chat_chunk_free(&w.chunk);
    jinja_text_free(&text);
    return status;
}

Status chat_jinja_text(const ChatTemplate *to, const Tokenizer *tokenizer, const ChatTalk *talk, char **out,
                       size_t *size, Error *error) {
    JinjaText text;
    Status status = chat_jinja_once(to, tokenizer, talk, false, &text, error);
    *out = NULL;
    if (status) return status;
    size_t length = 0;
    const char *bos = "";
    if (lacks_bos(tokenizer, &text)) bos = tokenizer_piece(tokenizer, tokenizer_bos(tokenizer), &length);
    *size = length + text.size;
    *out = malloc(*size + 1);
    if (*out) {
        memcpy(*out, bos, length);
        memcpy(*out + length, text.data, text.size + 1);
    }
    jinja_text_free(&text);
    return *out ? STATUS_OK : error_no_memory(error, "the conversation's text");
}
