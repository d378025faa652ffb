// A prompt that is too long for the context by itself: refused before it costs anything, or what of it is read where the
// settings want it cut.
#include "engine/talk/conversation_internal.h"
#include "kernels/base/text/utf8.h"

#include <stdlib.h>

enum {
    LONG_TOKEN = 8,  // bytes: texts of fewer a token of the context are split whole, which costs little
    PIECE = 1 << 16, // bytes that are counted at once
};

// ---- refused ---------------------------------------------------------------------------------------------------------

// Where a text is cut, a few tokens may be others than in the whole of it. Of a context twice as large they are no
// matter: what has between one and two contexts is split whole, and counted exactly.
Status long_prompt_is_beyond(const Conversation *c, const char *text, size_t size, bool *beyond,
                             Error *error) {
    const int64_t context = engine_context_size(c->engine);
    Status status = STATUS_OK;
    int64_t n = 0;
    *beyond = false;
    if ((int64_t)(size / LONG_TOKEN) <= context) return STATUS_OK;
    for (size_t at = 0, next; at < size && !status && !*beyond; at = next) {
        Tokens tokens = {0};
        next = size - at > PIECE ? at + PIECE : size;
        while (next < size && utf8_continues(text[next])) next++;
        status = tokenizer_encode(engine_tokenizer(c->engine), text + at, next - at, false, &tokens, error);
        n += tokens.n;
        *beyond = n > 2 * context;
        tokens_free(&tokens);
    }
    // What costs too much for its length may pass in the whole text, whose length counts.
    return status == STATUS_UNSUPPORTED ? STATUS_OK : status;
}

Status long_prompt_check(const Conversation *c, int index, const Message *m, Error *error) {
    const bool system = index == 0 && m->role == CHAT_SYSTEM;
    const bool question = index == c->n - 2 && m->role == CHAT_USER && !c->settings.overflow.cut_prompt;
    bool beyond = false;
    if (!system && !question) return STATUS_OK;
    Status status = long_prompt_is_beyond(c, m->text, m->size, &beyond, error);
    if (status || !beyond) return status;
    const LackOfRoom lack = {.n_tokens = 2 * engine_context_size(c->engine),
                             .needed = conversation_reserve(c),
                             .at_least = true,
                             .of_system = system};
    return conversation_no_room(c, &lack, error);
}

// ---- cut -------------------------------------------------------------------------------------------------------------

// The conversation with the last question cut, as often as it takes.
typedef struct Cut {
    Conversation *conversation;
    Message *question;
    int span;         // its place among those of the view
    int64_t n_tokens; // of all, as last rendered
    int64_t n_before; // of these, what stands before the question's text
    int64_t n_text;   // and the text
} Cut;

static bool begins_character(const Message *m, int64_t at) {
    return at >= (int64_t)m->size || !utf8_continues(m->text[at]);
}

// The question without its bytes [from, to), widened to whole characters.
static Status try(Cut *cut, int64_t from, int64_t to, Error *error) {
    Message *m = cut->question;
    ConversationView view;
    while (!begins_character(m, from)) from--;
    while (!begins_character(m, to)) to++;
    m->cut_from = from;
    m->cut_to = to;
    Status status = conversation_render(cut->conversation, true, &view, error);
    if (status) return status;
    const ChatSpan *span = &view.spans[cut->span];
    cut->n_tokens = view.tokens.n;
    cut->n_before = span->text_begin;
    cut->n_text = span->text_end - span->text_begin;
    conversation_view_free(&view);
    return STATUS_OK;
}

// Where a length is looked for that fits, in bytes.
typedef struct Search {
    int64_t fits, too_long; // what is known
    int64_t step; // the most by which the next try is longer: what is much too long is not split at all
} Search;

static Search search_begin(int64_t size, int64_t most) {
    return (Search){0, size, LONG_TOKEN * most};
}

static bool search_goes_on(const Search *s) {
    return s->too_long - s->fits > 1;
}

static int64_t search_next(const Search *s) {
    const int64_t half = (s->too_long - s->fits) / 2;
    return s->fits + (half < s->step ? half : s->step);
}

static void search_tried(Search *s, int64_t length, bool fits) {
    *(fits ? &s->fits : &s->too_long) = length;
    if (fits) s->step *= 2;
}

// The longest beginning of the question that is no more than `most` tokens; bytes in *head.
static Status find_head(Cut *cut, int64_t most, int64_t *head, Error *error) {
    const int64_t size = (int64_t)cut->question->size;
    Search search = search_begin(size, most);
    Status status = STATUS_OK;
    while (most > 0 && search_goes_on(&search) && !status) {
        const int64_t length = search_next(&search);
        status = try(cut, length, size, error);
        search_tried(&search, length, cut->n_text <= most);
    }
    *head = search.fits;
    return status;
}

// The longest end of the question, behind `head` bytes, with which no more than `most` tokens are there in all. The
// question is cut so.
static Status find_tail(Cut *cut, int64_t head, int64_t most, Error *error) {
    const int64_t size = (int64_t)cut->question->size;
    Search search = search_begin(size - head, most);
    Status status = STATUS_OK;
    while (search_goes_on(&search) && !status) {
        const int64_t length = search_next(&search);
        status = try(cut, head, size - length, error);
        search_tried(&search, length, cut->n_tokens <= most);
    }
    return status ? status : try(cut, head, size - search.fits, error);
}

// The question that the reply in hand answers; false: it answers none.
static bool find_question(Conversation *c, Cut *cut) {
    *cut = (Cut){.conversation = c};
    if (c->n < 2 || c->messages[c->n - 2].role != CHAT_USER) return false;
    cut->question = &c->messages[c->n - 2];
    for (int i = 0; i < c->n - 2; i++) cut->span += !c->messages[i].evicted;
    return !cut->question->evicted;
}

// Whether turns are in the window that would be evicted if the policy let any.
static Status others_are_seen(Conversation *c, const ConversationView *view, int64_t needed, bool *seen,
                              Error *error) {
    OverflowSettings settings = c->settings.overflow;
    OverflowSpan *spans;
    Status status = conversation_overflow_spans(c, view, &spans, error);
    if (status) return status;
    settings.policy = OVERFLOW_REEVALUATE;
    OverflowPlan plan =
        overflow_plan(&settings, spans, view->n_spans, engine_context_size(c->engine), needed);
    *seen = plan.n_messages > 0 || plan.n_of_reply > 0;
    free(spans);
    return STATUS_OK;
}

Status long_prompt_cut(Conversation *c, int64_t needed, const ConversationView *view, int64_t *n_cut,
                       Error *error) {
    const int64_t most = engine_context_size(c->engine) - needed, keep = c->settings.overflow.keep;
    Cut cut;
    bool others;
    int64_t head;
    *n_cut = 0;
    if (!c->settings.overflow.cut_prompt || !find_question(c, &cut)) return STATUS_OK;
    Status status = others_are_seen(c, view, needed, &others, error);
    if (status || others) return status;
    const Message before = *cut.question;
    status = try(&cut, 0, (int64_t)cut.question->size, error); // all but the text
    const int64_t room = most - cut.n_tokens, wanted = keep - cut.n_before;
    if (!status && room > 0) status = find_head(&cut, wanted < room / 2 ? wanted : room / 2, &head, error);
    if (!status && room > 0) status = find_tail(&cut, head, most, error);
    bool found = !status && room > 0 && cut.n_tokens <= most && cut.n_text > 0;
    if (found) {
        *n_cut = view->tokens.n - cut.n_tokens;
        return STATUS_OK;
    }
    cut.question->cut_from = before.cut_from;
    cut.question->cut_to = before.cut_to;
    return status;
}
