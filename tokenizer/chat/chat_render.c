// Messages to token ids, turn by turn.
#include "tokenizer/chat/chat_chunk.h"
#include "tokenizer/chat/chat_template_internal.h"
#include "tokenizer/chat/jinja/space.h"

#include <stdlib.h>
#include <string.h>

// The first failure stays in `status`; what comes after it does nothing.
typedef struct Renderer {
    const ChatTemplate *to;
    const Tokenizer *tokenizer;
    const Message *messages;
    int n_messages;
    int last_user;     // index, -1: there is none
    bool user_is_last; // nobody but the system has spoken after it
    Tokens *tokens;    // NULL: only text is wanted
    ChatSpan *spans;   // [n_messages]
    Chunk chunk;
    Status status;
    Error *error;
} Renderer;

// A piece of a turn's body: a literal, or the text of `message` (-1: the default system prompt's).
typedef struct Piece {
    const char *text;
    size_t size;
    bool literal;
    int message;
} Piece;

// ---- small steps -------------------------------------------------------------------------------------

static void add(Renderer *r, const char *text, size_t size, bool special) {
    if (!r->status) r->status = chat_chunk_add(&r->chunk, text, size, special, r->error);
}

static void mark(Renderer *r, int64_t *target) {
    if (!r->status) r->status = chat_chunk_mark(&r->chunk, target, r->error);
}

static void add_id_piece(Renderer *r, int32_t id) {
    size_t size;
    const char *piece = tokenizer_piece(r->tokenizer, id, &size);
    add(r, piece, size, true);
}

// A literal, with {bos} and {eos} replaced.
static void add_literal(Renderer *r, const char *text, size_t size) {
    size_t from = 0;
    for (size_t i = 0; i + 5 <= size; i++) {
        bool bos = !memcmp(text + i, "{bos}", 5), eos = !memcmp(text + i, "{eos}", 5);
        if (!bos && !eos) continue;
        add(r, text + from, i - from, true);
        add_id_piece(r, bos ? tokenizer_bos(r->tokenizer) : tokenizer_eos(r->tokenizer));
        from = i + 5;
        i += 4;
    }
    add(r, text + from, size - from, true);
}

static void add_string(Renderer *r, const char *literal) {
    add_literal(r, literal, strlen(literal));
}

static void flush(Renderer *r) {
    if (!r->status && r->tokens) r->status = chat_chunk_encode(&r->chunk, r->tokenizer, r->tokens, r->error);
}

static void trim_piece(Piece *piece, bool begin, bool end) {
    size_t before = begin ? space_before(piece->text, piece->size) : 0;
    piece->text += before;
    piece->size -= before;
    if (end) piece->size -= space_after(piece->text, piece->size);
}

// What is left of an earlier reply when its thoughts are forgotten.
static void drop_thoughts(const Renderer *r, int message, Piece *piece) {
    const char *end_mark = r->to->think_end, *found = NULL;
    if (!end_mark || message > r->last_user) return;
    size_t length = strlen(end_mark);
    for (const char *at = piece->text;
         (at = memmem(at, (size_t)(piece->text + piece->size - at), end_mark, length));)
        found = at += length;
    if (!found) return;
    while (found < piece->text + piece->size && *found == '\n') found++;
    piece->size -= (size_t)(found - piece->text);
    piece->text = found;
}

// ---- turns -------------------------------------------------------------------------------------------

static Piece message_piece(const Renderer *r, int message) {
    const Message *m = &r->messages[message];
    return (Piece){m->text ? m->text : "", m->text ? m->size : 0, false, message};
}

static void add_message_text(Renderer *r, const Piece *piece, bool marked) {
    ChatSpan *span = piece->message >= 0 && marked ? &r->spans[piece->message] : NULL;
    if (span) mark(r, &span->text_begin);
    add(r, piece->text, piece->size, false);
    if (span) mark(r, &span->text_end);
}

// A turn of one message.
static void add_turn(Renderer *r, int message) {
    const Message *m = &r->messages[message];
    const ChatTurn *turn = &r->to->turns[m->role];
    Piece piece = message_piece(r, message);
    if (m->role == CHAT_ASSISTANT) drop_thoughts(r, message, &piece);
    if (turn->trim) trim_piece(&piece, true, true);
    mark(r, &r->spans[message].begin);
    add_string(r, turn->before);
    add_message_text(r, &piece, true);
    add_string(r, turn->after);
    mark(r, &r->spans[message].end);
}

// The system texts that stand in a user's turn: those of the messages [from, to), only the systems among
// them, and the default one when `with_default`; then the user's own (-1: nobody's). Where they stand apart
// from their place in the talk, systems are not `marked`.
typedef struct UserTurn {
    int from, to, user;
    bool with_default, marked;
} UserTurn;

static void push_system(const Renderer *r, Piece *pieces, int *n, Piece text) {
    const ChatTurn *system = &r->to->turns[CHAT_SYSTEM];
    if (system->trim) trim_piece(&text, true, true);
    pieces[(*n)++] = (Piece){system->before, strlen(system->before), true, text.message};
    pieces[(*n)++] = text;
    pieces[(*n)++] = (Piece){system->after, strlen(system->after), true, text.message};
}

// White space goes from both ends of the pieces together, as if they were one text.
static void trim_pieces(Piece *pieces, int n) {
    for (int i = 0; i < n; i++) {
        trim_piece(&pieces[i], true, false);
        if (pieces[i].size) break;
    }
    for (int i = n - 1; i >= 0; i--) {
        trim_piece(&pieces[i], false, true);
        if (pieces[i].size) break;
    }
}

static void add_pieces(Renderer *r, const Piece *pieces, int n, bool marked) {
    for (int i = 0; i < n; i++) {
        // A system message's literals before and after its text come in threes with it.
        bool opens = pieces[i].literal && i + 1 < n && !pieces[i + 1].literal, own = pieces[i].message >= 0;
        ChatSpan *span = own && marked ? &r->spans[pieces[i].message] : NULL;
        if (!pieces[i].literal) {
            add_message_text(r, &pieces[i], span != NULL);
            continue;
        }
        if (opens && span && i > 0) mark(r, &span->begin);
        add_literal(r, pieces[i].text, pieces[i].size);
        if (!opens && span) mark(r, &span->end);
    }
}

static void add_user_turn(Renderer *r, UserTurn what) {
    const ChatTurn *turn = &r->to->turns[CHAT_USER];
    size_t most = 3 * ((size_t)(what.to - what.from) + 1) + 1;
    Piece *pieces = calloc(most, sizeof *pieces);
    if (!pieces) {
        r->status = r->status ? r->status : error_no_memory(r->error, "a turn");
        return;
    }
    int n = 0;
    const char *standard = r->to->default_system;
    if (what.with_default) push_system(r, pieces, &n, (Piece){standard, strlen(standard), false, -1});
    for (int i = what.from; i < what.to; i++)
        if (r->messages[i].role == CHAT_SYSTEM) push_system(r, pieces, &n, message_piece(r, i));
    int n_system = n;
    if (what.user >= 0) pieces[n++] = message_piece(r, what.user);
    if (what.user >= 0 && turn->trim == CHAT_TRIM_TEXT) trim_piece(&pieces[n - 1], true, true);
    if (turn->trim == CHAT_TRIM_TURN) trim_pieces(pieces, n);

    bool system_first = what.marked && what.from < what.to;
    if (system_first)
        mark(r, &r->spans[what.from].begin);
    else if (what.user >= 0)
        mark(r, &r->spans[what.user].begin);
    add_string(r, turn->before);
    add_pieces(r, pieces, n_system, what.marked);
    if (system_first && what.user >= 0) mark(r, &r->spans[what.user].begin);
    if (what.user >= 0) add_message_text(r, &pieces[n - 1], true);
    add_string(r, turn->after);
    if (what.user >= 0 || system_first) mark(r, &r->spans[what.user >= 0 ? what.user : what.to - 1].end);
    free(pieces);
}

// ---- replies kept as ids -----------------------------------------------------------------------------

// [*from, *to) of a reply's ids: without the pieces that ended it, and without forgotten thoughts.
static void bare_reply(const Renderer *r, int message, int64_t *from, int64_t *to) {
    const Message *m = &r->messages[message];
    *from = 0, *to = m->n_ids;
    while (*to > 0 && chat_template_is_end(r->to, r->tokenizer, m->ids[*to - 1])) --*to;
    int32_t think_end =
        r->to->think_end && message < r->last_user ? tokenizer_find(r->tokenizer, r->to->think_end) : -1;
    for (int64_t i = 0; think_end >= 0 && i < *to; i++)
        if (m->ids[i] == think_end) *from = i + 1;
    for (; *from && *from < *to; ++*from) {
        size_t size, newlines = 0;
        const char *bytes = tokenizer_bytes(r->tokenizer, m->ids[*from - 1], m->ids[*from], false, &size);
        while (newlines < size && bytes[newlines] == '\n') newlines++;
        if (newlines < size) break;
    }
}

// The closing literal from the piece on that ends a reply: what stands before it, a model has not said.
static const char *closing(const ChatTemplate *to) {
    const char *after = to->turns[CHAT_ASSISTANT].after, *first = NULL;
    for (int i = 0; i < to->ends.count; i++) {
        const char *found = strstr(after, to->ends.items[i]);
        if (found && (!first || found < first)) first = found;
    }
    return first ? first : after;
}

static void add_reply(Renderer *r, int message) {
    int64_t from, to;
    bare_reply(r, message, &from, &to);
    mark(r, &r->spans[message].begin);
    add_string(r, from ? r->to->turns[CHAT_ASSISTANT].before : r->to->prompt);
    flush(r);
    if (r->status) return;
    r->spans[message].text_begin = r->tokens->n;
    r->status = tokens_append(r->tokens, r->messages[message].ids + from, to - from, r->error);
    r->spans[message].text_end = r->tokens->n;
    add_string(r, closing(r->to));
    mark(r, &r->spans[message].end);
}

// ---- the whole ---------------------------------------------------------------------------------------

static void add_messages(Renderer *r, ChatPlace place) {
    bool with_default = r->to->default_system && (!r->n_messages || r->messages[0].role != CHAT_SYSTEM);
    if (with_default && place == CHAT_PLACE_OWN_TURN) {
        const ChatTurn *system = &r->to->turns[CHAT_SYSTEM];
        add_string(r, system->before);
        add(r, r->to->default_system, strlen(r->to->default_system), false);
        add_string(r, system->after);
    }
    with_default = with_default && place != CHAT_PLACE_OWN_TURN;
    for (int i = 0; i < r->n_messages && !r->status; i++) {
        const Message *m = &r->messages[i];
        if (m->role == CHAT_ASSISTANT && m->ids && r->tokens) {
            add_reply(r, i);
        } else if (m->role == CHAT_SYSTEM && place == CHAT_PLACE_FIRST_USER) {
            int user = i;
            while (user < r->n_messages && r->messages[user].role == CHAT_SYSTEM) user++;
            bool found = user < r->n_messages && r->messages[user].role == CHAT_USER;
            add_user_turn(r, (UserTurn){i, user, found ? user : -1, false, true});
            i = found ? user : user - 1;
        } else if (m->role == CHAT_SYSTEM && place == CHAT_PLACE_LAST_USER) {
            int64_t *ends[] = {&r->spans[i].begin, &r->spans[i].text_begin, &r->spans[i].text_end,
                               &r->spans[i].end};
            for (int end = 0; end < 4; end++) mark(r, ends[end]);
        } else if (m->role == CHAT_USER) {
            bool last = place == CHAT_PLACE_LAST_USER && i == r->last_user && r->user_is_last;
            bool standard = with_default && (place == CHAT_PLACE_FIRST_USER || last);
            add_user_turn(r, (UserTurn){0, last ? r->n_messages : 0, i, standard, false});
            if (standard) with_default = false;
        } else {
            add_turn(r, i);
        }
    }
}

static bool begins_with_bos(const Renderer *r) {
    const char *first = r->n_messages ? r->to->turns[r->messages[0].role].before : r->to->prompt;
    if (r->to->place != CHAT_PLACE_OWN_TURN && r->n_messages && r->messages[0].role == CHAT_SYSTEM)
        first = r->to->turns[CHAT_USER].before;
    return !strncmp(first, "{bos}", 5);
}

// Renders into r->chunk, and through it into r->tokens where there are some.
static void render(Renderer *r, bool generation_prompt) {
    r->last_user = -1;
    for (int i = 0; i < r->n_messages; i++) {
        if (r->messages[i].role == CHAT_USER) r->last_user = i;
        if (r->messages[i].role != CHAT_SYSTEM) r->user_is_last = r->last_user == i;
    }
    int32_t bos = tokenizer_bos(r->tokenizer);
    if (bos >= 0 && (r->to->bos || tokenizer_add_bos(r->tokenizer)) && !begins_with_bos(r)) {
        if (r->tokens)
            r->status = tokens_push(r->tokens, bos, r->error);
        else
            add_id_piece(r, bos);
        r->chunk.at_start = !r->to->bos; // then the tokenizer adds BOS to a text that knows nothing of it
    }
    // Without a user turn to stand in, a system prompt stands in one of its own making.
    ChatPlace place = r->to->place;
    add_messages(r, place == CHAT_PLACE_LAST_USER && r->last_user < 0 ? CHAT_PLACE_FIRST_USER : place);
    if (generation_prompt) add_string(r, r->to->prompt);
    flush(r);
}

Status chat_template_render(const ChatTemplate *chat_template, const Tokenizer *tokenizer,
                            const ChatTalk *talk, Tokens *tokens, ChatSpan *spans, Error *error) {
    const ChatTemplate *own = chat_jinja_of(chat_template);
    if (own) return chat_jinja_render(own, tokenizer, talk, tokens, spans, error);
    int64_t before = tokens->n;
    Renderer r = {.to = chat_template,
                  .tokenizer = tokenizer,
                  .messages = talk->messages,
                  .n_messages = talk->n,
                  .tokens = tokens,
                  .error = error};
    r.spans = calloc((size_t)talk->n + 1, sizeof *r.spans);
    if (!r.spans) return error_no_memory(error, "the conversation's text");
    render(&r, talk->generation_prompt);
    if (r.status) {
        tokens->n = before;
    } else if (spans && talk->n) {
        memcpy(spans, r.spans, (size_t)talk->n * sizeof *spans);
        spans[0].begin = before;
    }
    free(r.spans);
    chat_chunk_free(&r.chunk);
    return r.status;
}

Status chat_template_render_text(const ChatTemplate *chat_template, const Tokenizer *tokenizer,
                                 const ChatTalk *talk, char **text, size_t *size, Error *error) {
    const ChatTemplate *own = chat_jinja_of(chat_template);
    if (own) return chat_jinja_text(own, tokenizer, talk, text, size, error);
    Renderer r = {.to = chat_template,
                  .tokenizer = tokenizer,
                  .messages = talk->messages,
                  .n_messages = talk->n,
                  .error = error};
    *text = NULL;
    r.spans = calloc((size_t)talk->n + 1, sizeof *r.spans);
    if (!r.spans) return error_no_memory(error, "the conversation's text");
    render(&r, talk->generation_prompt);
    add(&r, "", 1, false);
    if (!r.status) {
        *text = r.chunk.text;
        *size = r.chunk.size - 1;
        r.chunk.text = NULL;
    }
    free(r.spans);
    chat_chunk_free(&r.chunk);
    return r.status;
}
