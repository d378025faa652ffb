// A turn: the question becomes a message, the reply streams, and both are recorded, also where the reply was
// interrupted.
#include "app/chat/chat_internal.h"
#include "app/chat/look/report.h"
#include "app/chat/way.h"
#include "app/process/signals.h"
#include "app/ranks/ranks.h"
#include "app/ranks/rescue.h"
#include "kernels/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TELL_SPEED_EVERY 0.25 // seconds

enum { OPENING_TOKENS = 2 }; // of a template's opening of a reply, that may hold a think token and a newline

// ---- a reply ----------------------------------------------------------------------------------------------

// The same over and over: it is told, or the reply ends.
static void watch_repetition(Chat *chat, const char *text, size_t size) {
    const SettingsLoops loops = chat->settings->ui.loops;
    if (loops == LOOPS_OFF || !repetition_found(&chat->reply.repetition, text, size)) return;
    if (loops == LOOPS_TELL)
        screen_notice(chat->screen, "[the same over and over; Ctrl-C stops it, /set loops stop does, and "
                                    "repeat_penalty or dry_multiplier keep it from happening]");
    chat->reply.looped = loops == LOOPS_STOP;
    if (chat->reply.looped) signals_raise_interrupt();
}

static void watch_speed(Chat *chat) {
    ChatReply *reply = &chat->reply;
    double now = clock_seconds();
    if (!reply->n_tokens++) reply->started = reply->told = now;
    if (!chat->interactive || !chat->settings->ui.live_speed || now - reply->told < TELL_SPEED_EVERY) return;
    char text[80];
    reply->told = now;
    snprintf(text, sizeof text, "%.1f tok/s, %" PRId64 " tokens",
             (double)(reply->n_tokens - 1) / (now - reply->started), reply->n_tokens);
    screen_reply_status(chat->screen, text);
}

static void on_token(void *user, int32_t id) {
    Chat *chat = user;
    watch_speed(chat);
    bool before = chat->thoughts.thinking;
    thoughts_token(&chat->thoughts, id);
    if (chat->thoughts.mode != THINK_HIDE) return;
    if (!before && chat->thoughts.thinking && chat->interactive) screen_notice(chat->screen, "[thinking]");
    if (chat->thoughts.thinking) chat->reply.hushed = true;
}

static ScreenStyle style_of(const Chat *chat) {
    return chat->thoughts.thinking && chat->thoughts.mode == THINK_DIM ? SCREEN_DIM : SCREEN_NORMAL;
}

// A reply goes on (NULL: none does): what of it is on the screen, and drawn in one with what comes.
static void note_before(Chat *chat, const TranscriptReply *before) {
    ChatReply *reply = &chat->reply;
    const ThinkMode mode = chat->thoughts.mode;
    reply->n_before = 0;
    if (!before || (chat->thoughts.thinking && mode == THINK_HIDE)) return;
    size_t n = before->size;
    if (before->ids && mode != THINK_SHOW && thoughts_known(&chat->thoughts))
        n = thoughts_tail(&chat->thoughts, engine_tokenizer(chat->model.engine), before->ids, before->n_ids);
    if (n > before->size) n = before->size;
    reply->before = before->text + before->size - n;
    reply->n_before = n;
    reply->before_style = style_of(chat);
}

static void on_text(void *user, const char *text, size_t size) {
    Chat *chat = user;
    Error error;
    bool thinking = chat->thoughts.thinking;
    if (!chat->reply.has_own_seed) chat->reply.next = conversation_settings(chat->conversation)->position;
    rescue_add(text, size);
    watch_repetition(chat, text, size);
    if (thinking && chat->thoughts.mode == THINK_HIDE) return;
    for (; chat->reply.hushed && size && *text == '\n'; text++) size--;
    if (!size) return;
    chat->reply.hushed = false;
    if (chat->interactive && (!chat->reply.speaking || chat->reply.parted)) screen_space(chat->screen);
    chat->reply.speaking = true;
    chat->reply.parted = false;
    if (chat->output) return;
    const ScreenStyle style = style_of(chat);
    if (chat->reply.n_before && style == chat->reply.before_style)
        screen_reply_go_on(chat->screen, style, chat->reply.before, chat->reply.n_before);
    chat->reply.n_before = 0;
    chat_note_output(chat, screen_reply(chat->screen, style, text, size, &error), &error);
    if (chat->output) signals_raise_interrupt();
}

static void on_overflow(void *user, const OverflowEvent *event) {
    chat_overflow_note(user, event);
}

// A long prompt is read in pieces. Once the reply is on the screen, nothing else may be drawn there.
static bool on_reading(void *user, const char *what, int64_t done, int64_t total) {
    Chat *chat = user;
    if (!chat->reply.speaking) screen_progress_tokens(chat->screen, what, (uint64_t)done, (uint64_t)total);
    return !*signals_interrupt();
}

// Every turn of a script has its line, if only an empty one.
static void say_nothing(Chat *chat) {
    Error error;
    if (!chat->output)
        chat_note_output(chat, screen_reply(chat->screen, SCREEN_NORMAL, "\n", 1, &error), &error);
}

// Where the reply begins, a template may have opened a thought; where it goes on, the reply itself.
static Status begin_thoughts(Chat *chat, bool resume, Error *error) {
    ConversationView view;
    thoughts_begin(&chat->thoughts, NULL, 0);
    if (chat->thoughts.channels.tokenizer) { // every reply begins with a header of its own
        int last = conversation_length(chat->conversation) - 1;
        const Message *message = resume && last >= 0 ? conversation_message(chat->conversation, last) : NULL;
        if (message) thoughts_begin(&chat->thoughts, message->ids, message->n_ids);
        return STATUS_OK;
    }
    if (chat->thoughts.begin < 0) return STATUS_OK;
    Status status = conversation_view(chat->conversation, !resume, &view, error);
    if (status) return status;
    const ChatSpan *last = view.n_spans ? &view.spans[view.n_spans - 1] : NULL;
    int64_t end = resume && last ? last->text_end : view.tokens.n;
    int64_t from = resume && last ? last->text_begin : end;
    from = from > OPENING_TOKENS ? from - OPENING_TOKENS : 0;
    thoughts_begin(&chat->thoughts, view.tokens.ids + from, end - from);
    conversation_view_free(&view);
    return STATUS_OK;
}

// The model answers the messages (or goes on with what it said `before`); *reply speaks of the conversation's last
// message. A seed of the reply's own leaves the conversation's random numbers where they are. A backend that is lost
// after something was said ends the reply as an interrupt does; settle_turn() tells of it.
static Status make_reply(Chat *chat, const TranscriptReply *before, const uint64_t *seed,
                         TranscriptReply *reply, Error *error) {
    const bool resume = before != NULL;
    ConversationSettings *settings = conversation_settings(chat->conversation);
    ConversationEvents events = {.user = chat, .token = on_token, .text = on_text, .overflow = on_overflow};
    uint64_t own = settings->position;
    if (begin_thoughts(chat, resume, error)) return error->status;
    note_before(chat, before);
    if (seed) settings->seed = *seed, settings->position = 0;
    *reply = (TranscriptReply){.seed = settings->seed, .position = settings->position};
    chat->reply.seed = reply->seed, chat->reply.position = reply->position;
    chat->reply.next = own, chat->reply.has_own_seed = seed != NULL;
    chat_overflow_begin(chat);
    chat->reply.speaking = chat->reply.parted = chat->reply.hushed = chat->reply.looped = false;
    chat->reply.lost.status = STATUS_OK;
    chat->reply.repetition.n = chat->reply.repetition.unchecked = 0;
    chat->reply.repetition.found = false;
    chat->reply.n_tokens = 0;
    session_set_progress(conversation_session(chat->conversation), (Progress){on_reading, chat});
    Status status = conversation_reply(chat->conversation, resume, &events, &reply->report, error);
    if (status == STATUS_FATAL && reply->report.kept) chat->reply.lost = *error, status = STATUS_OK;
    screen_progress_end(chat->screen);
    if (chat->reply.looped) signals_clear_interrupt();
    if (!status && !chat->interactive && !chat->reply.speaking) say_nothing(chat);
    Error unwritten;
    chat_note_output(chat, screen_reply_end(chat->screen, &unwritten), &unwritten);
    if (chat->interactive) screen_space(chat->screen);
    if (!status) status = chat_overflow_end(chat, error);
    settings->seed = chat->numbers.seed;
    if (status || seed) settings->position = own;
    if (status) return status;
    const int n = conversation_length(chat->conversation);
    const Message *message = conversation_message(chat->conversation, n - 1);
    const Message *asked = n > 1 ? conversation_message(chat->conversation, n - 2) : message;
    reply->cut_from = asked->cut_from;
    reply->cut_to = asked->cut_to;
    reply->text = message->text;
    reply->size = message->size;
    reply->ids = message->ids;
    reply->n_ids = message->n_ids;
    reply->n_evicted = message->n_evicted;
    reply->interrupted = message->interrupted;
    reply->next = settings->position;
    reply->overflow = chat->reply.overflow;
    reply->n_overflow = chat->reply.n_overflow;
    chat->last = reply->report;
    chat->record.reading += reply->report.first_token_seconds;
    chat->has_last = true;
    chat->used = reply->report.used;
    if (chat->reply.n_overflow) report_again(chat);
    return STATUS_OK;
}

// A turn is in the transcript, or nothing of it is left: the messages are `back`, which is used up. STATUS_FATAL: it is
// there, and the backend was lost in it.
static Status settle_turn(Chat *chat, MessageList *back, Status status, Error *error) {
    if (status) {
        rescue_done();
        way_take(chat, back);
        return status;
    }
    Error ignored; // without memory the conversation stays what it was
    message_list_free(back);
    if (chat->interactive) (void)transcript_set_talked(chat->transcript, &ignored);
    chat_record_sync(chat);
    rescue_done();
    chat_snapshot_tell(chat);
    report_turn(chat);
    const Error *lost = &chat->reply.lost;
    if (!lost->status) return STATUS_OK;
    return error_set(error, lost->status, "%s; %s", lost->message, chat_rescue_words(chat, true, true));
}

// A question whose answer may not come is on disk; one that is asked again is there already.
static void note_question(Chat *chat, const ChatTurn *turn) {
    Error ignored; // then it is only in memory, as it would be without
    const char *asked = transcript_asked(chat->transcript);
    if (!strcmp(turn->why, "retry") || (asked && !strcmp(asked, turn->text))) return;
    if (!transcript_set_asked(chat->transcript, turn->text, turn->size, &ignored)) chat_record_sync(chat);
}

// One of a person is there before it is answered, whatever ends the answer, and so is one to several ranks, which may
// end the program with them; another of a script stays in the script until its answer fails.
static bool notes_before(const Chat *chat) {
    return chat->interactive || ranks_are_several(chat->settings);
}

// One that a person took back, or that was refused, is not; one whose program ends is.
static void forget_question(Chat *chat, Status status) {
    Error ignored;
    if (!transcript_asked(chat->transcript) || status == STATUS_FATAL || signals_leave()) return;
    if (!transcript_set_asked(chat->transcript, NULL, 0, &ignored)) chat_record_sync(chat);
}

Status chat_turn_ask_at(Chat *chat, const ChatTurn *turn, Error *error) {
    Message user = {.role = CHAT_USER, .text = turn->text, .size = turn->size};
    TranscriptNode node = {.role = CHAT_USER, .text = turn->text, .size = turn->size};
    MessageList back;
    Status status = way_prepare_here(chat, &back, error);
    if (status) return status;
    if (turn->parent != chat_tree(chat)->head) status = way_project(chat, turn->parent, error);
    if (!status) status = chat_settings_apply(chat, error);
    if (!status) status = way_begin(chat, turn->parent, turn->parent, error);
    if (!status) status = conversation_append(chat->conversation, &user, error);
    if (!status && notes_before(chat)) note_question(chat, turn);
    chat_rescue_begin(chat, turn);
    if (!status) status = make_reply(chat, NULL, turn->seed, &node.reply, error);
    rescue_settle();
    if (status == STATUS_FATAL) note_question(chat, turn);
    if (!status) status = chat_settings_record(chat, error);
    if (!status) status = transcript_add_turn(chat->transcript, turn->parent, turn->why, &node, error);
    if (status) forget_question(chat, status);
    const Error why = *error;
    if (status == STATUS_FATAL)
        (void)error_set(error, status, "%s; %s", why.message,
                        chat_rescue_words(chat, transcript_asked(chat->transcript) != NULL, false));
    return settle_turn(chat, &back, status, error);
}

Status chat_turn_ask(Chat *chat, const char *text, Error *error) {
    char *joined = NULL;
    if (chat->attachment) {
        if (asprintf(&joined, "%s\n\n%s", chat->attachment, text) < 0)
            return error_set(error, STATUS_MEMORY, "out of memory");
        text = joined;
    }
    ChatTurn turn = {chat_tree(chat)->head, "ask", text, strlen(text), NULL};
    Status status = chat_turn_ask_at(chat, &turn, error);
    if (!status) (void)chat_turn_detach(chat);
    free(joined);
    return status;
}

Status chat_turn_continue(Chat *chat, Error *error) {
    const Tree *tree = chat_tree(chat);
    int head = tree->head;
    if (head == TREE_START) return error_set(error, STATUS_USAGE, "there is no reply to go on with");
    const TranscriptReply *before = &transcript_node(chat->transcript, head)->reply;
    bool has_reply = before->text;
    const size_t size = before->size;
    TranscriptReply reply = {0};
    MessageList back;
    Status status = way_prepare_here(chat, &back, error);
    if (status) return status;
    status = chat_settings_apply(chat, error);
    if (!status) status = way_begin(chat, tree->nodes[head].parent, head, error);
    chat_rescue_begin(chat, NULL);
    if (has_reply) rescue_add(transcript_node(chat->transcript, head)->reply.text, size);
    if (!status)
        status = make_reply(chat, has_reply ? &transcript_node(chat->transcript, head)->reply : NULL, NULL,
                            &reply, error);
    rescue_settle();
    if (!status && has_reply && reply.size == size && !chat->reply.lost.status)
        screen_notice(chat->screen, "[the reply is complete: there is nothing to go on with]");
    if (!status) status = chat_settings_record(chat, error);
    if (!status) status = transcript_set_reply(chat->transcript, head, &reply, error);
    return settle_turn(chat, &back, status, error);
}

Status chat_turn_say(Chat *chat, ChatRole role, const char *text, Error *error) {
    const Tree *tree = chat_tree(chat);
    Message message = {.role = role, .text = text, .size = strlen(text)};
    ConversationView view;
    if (role == CHAT_SYSTEM && tree->head == TREE_START)
        return error_set(error, STATUS_USAGE,
                         "before the first turn it is /system that sets the system prompt");
    MessageList back;
    Status status = way_prepare_here(chat, &back, error);
    if (status) return status;
    status = conversation_append(chat->conversation, &message, error);
    if (!status) status = conversation_view(chat->conversation, false, &view, error);
    if (status) {
        way_take(chat, &back);
        return status;
    }
    conversation_view_free(&view);
    TranscriptReply reply = {.text = text,
                             .size = message.size,
                             .seed = chat->numbers.seed,
                             .next = conversation_settings(chat->conversation)->position};
    TranscriptNode node = {.role = role};
    if (role == CHAT_ASSISTANT)
        node.reply = reply;
    else
        node.text = text, node.size = message.size;
    bool answers = role == CHAT_ASSISTANT && tree->head != TREE_START &&
                   !transcript_node(chat->transcript, tree->head)->reply.text &&
                   transcript_node(chat->transcript, tree->head)->role == CHAT_USER;
    status = answers ? transcript_set_reply(chat->transcript, tree->head, &reply, error)
                     : transcript_add_turn(chat->transcript, tree->head, "say", &node, error);
    chat->used = -1;
    if (status) {
        way_take(chat, &back);
        return status;
    }
    message_list_free(&back);
    chat_record_sync(chat);
    return STATUS_OK;
}

// ---- what waits -----------------------------------------------------------------------------------------

Status chat_turn_attach(Chat *chat, const char *text, Error *error) {
    const char *waits = chat->attachment;
    char *joined;
    if (asprintf(&joined, "%s%s%s", waits ? waits : "", waits ? "\n\n" : "", text) < 0)
        return error_set(error, STATUS_MEMORY, "out of memory");
    free(chat->attachment);
    chat->attachment = joined;
    return STATUS_OK;
}

bool chat_turn_detach(Chat *chat) {
    bool waited = chat->attachment;
    free(chat->attachment);
    chat->attachment = NULL;
    return waited;
}
