#include "app/chat/look/replay.h"

#include "app/chat/chat_internal.h"
#include "app/chat/way.h"
#include "app/process/signals.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct Replay {
    Chat *chat;
    const bool *on_way; // [nodes of the whole tree]
    Transcript *past;   // the log up to here: node i is the same as in the whole one
    ReplayReport *report;
    const TranscriptReply *wanted; // the reply in hand
    bool aside;                    // it is not on the way: made for what it leaves in the cache
    bool shifted;                  // the policy was to shift, if only once
    int64_t place;                 // of the next token in it
    atomic_int stop;               // enough of this reply was seen
} Replay;

// ---- one reply --------------------------------------------------------------------------------------------

static void differ(Replay *r, int32_t is) {
    bool over = r->place >= r->wanted->n_ids;
    r->stop = 1;
    if (r->aside) return;
    r->report->differs = true;
    r->report->place = r->place + 1;
    r->report->was = over ? -1 : r->wanted->ids[r->place];
    r->report->is = is;
}

static void on_token(void *user, int32_t id) {
    Replay *r = user;
    const Chat *chat = r->chat;
    bool ends = !conversation_settings(chat->conversation)->sampler.ignore_eos &&
                chat_template_is_end(chat->model.chat_template, engine_tokenizer(chat->model.engine), id);
    if (*signals_interrupt()) r->stop = 1;
    if (r->stop || !r->wanted->ids) return;
    if (r->place < r->wanted->n_ids) {
        if (ends || id != r->wanted->ids[r->place]) differ(r, ends ? -1 : id);
    } else if (r->wanted->report.finish != FINISH_END) {
        r->stop = 1; // it was cut short here
    } else if (!ends) {
        differ(r, id);
    }
    r->place++;
}

static Status take_settings(Replay *r, Error *error) {
    Chat *chat = r->chat;
    for (int i = 0; i < transcript_n_settings(r->past); i++) {
        TranscriptSetting setting = transcript_setting(r->past, i);
        if (config_set(&chat->settings->config, CONFIG_SESSION, setting.key, setting.text, error))
            return error->status;
    }
    return chat_settings_apply(chat, error);
}

// Everything as it was when the reply was made; the messages before it are there.
static Status set_stage(Replay *r, Error *error) {
    Status status = take_settings(r, error);
    if (status) return status;
    ConversationSettings *settings = conversation_settings(r->chat->conversation);
    settings->seed = r->wanted->seed;
    settings->position = r->wanted->position;
    settings->stream = transcript_header(r->past).stream;
    return STATUS_OK;
}

static bool shifts(const Chat *chat) {
    OverflowPolicy policy = conversation_settings(chat->conversation)->overflow.policy;
    return policy == OVERFLOW_SHIFT || policy == OVERFLOW_SHIFT_INPLACE;
}

// What a shift left in the cache has seen what was evicted. Where the reply was made without it, since the conversation
// had been resumed or left for another in between, it is made without it again.
static bool drop_shifted(Replay *r) {
    Session *session = conversation_session(r->chat->conversation);
    if (r->wanted->report.cached > session_sinks(session)) return false;
    session_drop_shifted(session);
    return true;
}

// Whether a reply was made over a shifted cache, then or now, that went as far only one of both times.
static bool is_apart(const Replay *r, bool shifted, int64_t cached) {
    int64_t then = r->wanted->report.cached;
    return shifts(r->chat) && (then > cached || (then < cached && shifted));
}

// The messages lead up to the reply of node `index`; the first `begun` of its tokens are there already.
static Status sample_again(Replay *r, int index, bool resume, int64_t begun, Error *error) {
    Chat *chat = r->chat;
    ConversationEvents events = {.user = r, .token = on_token};
    ReplyReport made;
    r->wanted = &transcript_node(r->past, index)->reply;
    r->aside = !r->on_way[index];
    r->place = begun;
    r->stop = 0;
    Status status = set_stage(r, error);
    bool without = !status && drop_shifted(r);
    bool shifted = session_sinks(conversation_session(chat->conversation)) >= 0;
    if (!status) status = conversation_reply(chat->conversation, resume, &events, &made, error);
    if (status) return status;
    if (*signals_interrupt()) return error_set(error, STATUS_INTERRUPTED, "interrupted");
    const Message *last =
        conversation_message(chat->conversation, conversation_length(chat->conversation) - 1);
    if (!r->report->differs && r->wanted->ids && r->place < r->wanted->n_ids) differ(r, -1);
    const bool same =
        last->size == r->wanted->size && (!last->size || !memcmp(last->text, r->wanted->text, last->size));
    if (!r->wanted->ids && !same) differ(r, -1);
    if (!without && !*r->report->apart && is_apart(r, shifted, made.cached))
        tree_name(transcript_tree(r->past), index, r->report->apart);
    if (r->aside) return STATUS_OK;
    r->report->n_replies++;
    r->report->n_tokens += made.n_reply;
    tree_name(transcript_tree(r->past), index, r->report->node);
    return STATUS_OK;
}

// ---- the log, record by record ----------------------------------------------------------------------------

// Whether a node matters: those of the way, and all others once the policy was to shift, for what the cache holds then
// depends on all that went through it.
static bool matters(Replay *r, int index) {
    for (int i = 0; i < transcript_n_settings(r->past); i++) {
        TranscriptSetting setting = transcript_setting(r->past, i);
        if (!strcmp(setting.key, "overflow") && strstr(setting.text, "shift")) r->shifted = true;
    }
    return r->on_way[index] || r->shifted;
}

// Replies of another model or template are not this one's to make again.
static bool was_sampled(Replay *r, int index) {
    TranscriptModel model = transcript_header(r->past).model;
    return matters(r, index) && transcript_node(r->past, index)->reply.report.n_reply > 0 &&
           !strcmp(model.fingerprint, r->chat->model.fingerprint) &&
           !strcmp(model.chat_template, chat_template_name(r->chat->model.chat_template));
}

static Status take_turn(Replay *r, const char *line, size_t size, Error *error) {
    if (transcript_take_line(r->past, line, size, error)) return error->status;
    const Tree *tree = transcript_tree(r->past);
    int index = tree->n - 1;
    if (!was_sampled(r, index)) return STATUS_OK;
    const TranscriptNode *node = transcript_node(r->past, index);
    Message asked = {.role = node->role, .text = node->text, .size = node->size};
    Status status = way_project(r->chat, tree->nodes[index].parent, error);
    if (!status && node->text) status = conversation_append(r->chat->conversation, &asked, error);
    return status ? status : sample_again(r, index, false, 0, error);
}

// A reply that went on, or was made after its question.
static Status take_reply(Replay *r, int index, const char *line, size_t size, Error *error) {
    const TranscriptReply *before = &transcript_node(r->past, index)->reply;
    bool resume = before->text;
    int64_t begun = before->n_ids;
    Status status = matters(r, index) ? way_project(r->chat, index, error) : STATUS_OK;
    if (!status && resume && !before->ids && matters(r, index)) {
        Tokens typed = {0};
        status = tokenizer_encode(engine_tokenizer(r->chat->model.engine), before->text, before->size, false,
                                  &typed, error);
        begun = typed.n;
        tokens_free(&typed);
    }
    if (!status) status = transcript_take_line(r->past, line, size, error);
    if (status || !was_sampled(r, index)) return status;
    return sample_again(r, index, resume, begun, error);
}

static Status take_forget(Replay *r, int index, const char *line, size_t size, Error *error) {
    ConversationView before;
    Chat *chat = r->chat;
    if (take_settings(r, error) || way_project(chat, index, error) ||
        conversation_view(chat->conversation, false, &before, error))
        return error->status;
    Status status = transcript_take_line(r->past, line, size, error);
    if (!status) status = way_project(chat, index, error);
    if (!status) status = conversation_follow(chat->conversation, &before, error);
    conversation_view_free(&before);
    return status;
}

static Status take_line(Replay *r, const char *line, size_t size, Error *error) {
    json_t *record = json_loadb(line, size, JSON_ALLOW_NUL, NULL);
    const char *kind = json_string_value(json_object_get(record, "record"));
    const char *name = json_string_value(json_object_get(record, "node"));
    int index = name ? tree_find(transcript_tree(r->past), name) : TREE_NONE;
    Status status;
    if (kind && !strcmp(kind, "turn"))
        status = take_turn(r, line, size, error);
    else if (kind && !strcmp(kind, "reply") && index >= 0)
        status = take_reply(r, index, line, size, error);
    else if (kind && !strcmp(kind, "forget") && index >= 0 && matters(r, index))
        status = take_forget(r, index, line, size, error);
    else
        status = transcript_take_line(r->past, line, size, error);
    json_decref(record);
    return status;
}

static Status take_log(Replay *r, const char *log, size_t size, Error *error) {
    Status status = STATUS_OK;
    for (size_t at = 0; at < size && !status && !r->report->differs;) {
        const char *end = memchr(log + at, '\n', size - at);
        size_t length = end ? (size_t)(end - log) - at : size - at;
        status = take_line(r, log + at, length, error);
        at += length + 1;
    }
    return status;
}

Status replay_verify(Chat *chat, ReplayReport *report, Error *error) {
    Replay r = {.chat = chat, .report = report};
    Transcript *whole = chat->transcript;
    const Tree *tree = transcript_tree(whole);
    Session *session = conversation_session(chat->conversation);
    ConversationSettings numbers = *conversation_settings(chat->conversation);
    uint64_t seed = chat->numbers.seed;
    Settings before;
    size_t size;
    const char *log = transcript_log(whole, &size);
    *report = (ReplayReport){0};
    bool *on_way = calloc((size_t)tree->n + 1, sizeof *on_way);
    if (!on_way) return error_set(error, STATUS_MEMORY, "out of memory");
    r.on_way = on_way;
    for (int i = tree->head; i != TREE_START; i = tree->nodes[i].parent) on_way[i] = true;
    MessageList back = {0};
    Status status = transcript_blank(&r.past, error);
    if (!status) status = way_prepare_here(chat, &back, error);
    if (!status) status = settings_copy(&before, chat->settings, error);
    if (!status) {
        chat->transcript = r.past;
        session_set_interrupt(session, &r.stop);
        chat->told.settings.quiet = true;
        session_drop_shifted(session); // the first turns were made before anything left
        status = take_log(&r, log, size, error);
        session_set_interrupt(session, signals_interrupt());
        chat->transcript = whole;
        settings_free(chat->settings);
        *chat->settings = before;
        chat->numbers.seed = seed;
        chat->told.settings.quiet = false;
        Error second;
        if (chat_settings_apply(chat, &second)) screen_error(chat->screen, "%s", second.message);
        way_take(chat, &back);
        conversation_settings(chat->conversation)->seed = numbers.seed;
        conversation_settings(chat->conversation)->position = numbers.position;
        conversation_settings(chat->conversation)->stream = numbers.stream;
    }
    message_list_free(&back);
    transcript_free(r.past);
    free(on_way);
    return status;
}
