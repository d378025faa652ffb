#include "app/chat.h"

#include "app/signals.h"
#include "tokenizer/utf8_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the conversation as the transcript says --------------------------------------------------------------

static Status append_node(Chat *chat, const TranscriptNode *node, Error *error) {
    Message user = {
        .role = CHAT_USER, .text = (char *)node->user, .size = node->user_size, .discarded = node->discarded};
    Message reply = {.role = CHAT_ASSISTANT,
                     .text = (char *)node->reply.text,
                     .size = node->reply.size,
                     .ids = (int32_t *)node->reply.ids,
                     .n_ids = node->reply.n_ids,
                     .n_gone = node->reply.n_gone,
                     .interrupted = node->reply.interrupted,
                     .discarded = node->discarded};
    Status status = conversation_append(chat->conversation, &user, error);
    return status ? status : conversation_append(chat->conversation, &reply, error);
}

// Messages of the path that ends at the head's ancestor of `depth` turns.
static Status project_to(Chat *chat, int depth, Error *error) {
    int *path = malloc(((size_t)depth + 1) * sizeof *path);
    if (!path) return error_set(error, STATUS_MEMORY, "out of memory");
    int node = transcript_at(chat->transcript, depth);
    for (int turn = depth; turn > 0; turn--) {
        path[turn - 1] = node;
        node = transcript_node(chat->transcript, node)->parent;
    }
    conversation_truncate(chat->conversation, 0);
    chat->used = -1;
    Status status = conversation_set_system(chat->conversation, transcript_system(chat->transcript), error);
    for (int turn = 1; turn <= depth && status == STATUS_OK; turn++)
        status = append_node(chat, transcript_node(chat->transcript, path[turn - 1]), error);
    free(path);
    return status;
}

Status chat_project(Chat *chat, Error *error) {
    return project_to(chat, transcript_depth(chat->transcript), error);
}

// After a failure, whose message stays: nothing of the turn is left.
static void roll_back(Chat *chat) {
    Error second;
    if (chat_project(chat, &second)) screen_error(chat->screen, "%s", second.message);
}

// ---- a reply ----------------------------------------------------------------------------------------------

static void on_text(void *user, const char *text, size_t size) {
    Chat *chat = user;
    Error error;
    chat->speaking = true;
    if (chat->output) return;
    chat->output = screen_reply(chat->screen, text, size, &error);
    if (chat->output) {
        screen_error(chat->screen, "%s", error.message);
        signals_raise_interrupt();
    }
}

static void on_overflow(void *user, const OverflowEvent *event) {
    Chat *chat = user;
    report_overflow(chat, event);
    OverflowEvent *longer = realloc(chat->overflow, (size_t)(chat->n_overflow + 1) * sizeof *longer);
    if (!longer) return;
    chat->overflow = longer;
    chat->overflow[chat->n_overflow++] = *event;
}

// A long prompt is read in pieces. Once the reply is on the screen, nothing else may be drawn there.
static bool on_reading(void *user, const char *what, int64_t done, int64_t total) {
    Chat *chat = user;
    if (chat->interactive && !chat->speaking)
        screen_progress_tokens(chat->screen, what, (uint64_t)done, (uint64_t)total);
    return !*signals_interrupt();
}

static size_t last_message_size(const Chat *chat) {
    return conversation_message(chat->conversation, conversation_length(chat->conversation) - 1)->size;
}

// The model answers the messages (or, with `resume`, goes on); *reply speaks of the conversation's last
// message. A seed of the reply's own leaves the conversation's random numbers where they are.
static Status make_reply(Chat *chat, bool resume, const uint64_t *seed, TranscriptReply *reply,
                         Error *error) {
    ConversationSettings *settings = conversation_settings(chat->conversation);
    ConversationEvents events = {.user = chat, .text = on_text, .overflow = on_overflow};
    uint64_t own = settings->position;
    Error ignored;
    if (seed) settings->seed = *seed, settings->position = 0;
    *reply = (TranscriptReply){.seed = settings->seed, .position = settings->position};
    chat->n_overflow = 0;
    chat->speaking = false;
    if (chat->interactive) signals_clear_interrupt(); // elsewhere it ends the program
    Status status = conversation_reply(chat->conversation, resume, &events, &reply->report, error);
    screen_progress_end(chat->screen);
    if (!status && !chat->interactive && !last_message_size(chat)) on_text(chat, "\n", 1);
    Status ended = screen_reply_end(chat->screen, &ignored);
    if (chat->output == STATUS_OK) chat->output = ended;
    settings->seed = chat->seed;
    if (status || seed) settings->position = own;
    if (status) return status;
    const Message *message =
        conversation_message(chat->conversation, conversation_length(chat->conversation) - 1);
    reply->text = message->text;
    reply->size = message->size;
    reply->ids = message->ids;
    reply->n_ids = message->n_ids;
    reply->n_gone = message->n_gone;
    reply->interrupted = message->interrupted;
    reply->next = settings->position;
    reply->overflow = chat->overflow;
    reply->n_overflow = chat->n_overflow;
    chat->last = reply->report;
    chat->has_last = true;
    chat->used = reply->report.used;
    if (chat->n_overflow) chat->warned_full = chat->warned_next = false;
    return STATUS_OK;
}

// A turn is in the transcript, or nothing of it is left.
static Status settle_turn(Chat *chat, Status status) {
    if (status) {
        roll_back(chat);
        return status;
    }
    chat_save(chat);
    report_turn(chat);
    return STATUS_OK;
}

Status chat_ask_at(Chat *chat, const ChatTurn *turn, Error *error) {
    int depth = turn->parent == TRANSCRIPT_START ? 0 : transcript_node(chat->transcript, turn->parent)->turn;
    Message user = {.role = CHAT_USER, .text = (char *)turn->text, .size = turn->size};
    TranscriptReply reply;
    Status status = STATUS_OK;
    if (depth != transcript_depth(chat->transcript)) status = project_to(chat, depth, error);
    if (status == STATUS_OK) status = chat_apply_settings(chat, error);
    if (status == STATUS_OK) status = conversation_append(chat->conversation, &user, error);
    if (status == STATUS_OK) status = make_reply(chat, false, turn->seed, &reply, error);
    if (status == STATUS_OK) status = chat_record_settings(chat, error);
    if (status == STATUS_OK)
        status = transcript_add_turn(chat->transcript, turn->parent, turn->why, turn->text, turn->size,
                                     &reply, error);
    return settle_turn(chat, status);
}

Status chat_ask(Chat *chat, const char *text, Error *error) {
    char *joined = NULL;
    if (chat->attachment) {
        if (asprintf(&joined, "%s\n\n%s", chat->attachment, text) < 0)
            return error_set(error, STATUS_MEMORY, "out of memory");
        text = joined;
    }
    ChatTurn turn = {transcript_head(chat->transcript), "ask", text, strlen(text), NULL};
    Status status = chat_ask_at(chat, &turn, error);
    if (status == STATUS_OK) {
        free(chat->attachment);
        chat->attachment = NULL;
    }
    free(joined);
    return status;
}

Status chat_continue(Chat *chat, Error *error) {
    int head = transcript_head(chat->transcript);
    if (head == TRANSCRIPT_START) return error_set(error, STATUS_USAGE, "there is no reply to go on with");
    TranscriptReply reply;
    Status status = chat_apply_settings(chat, error);
    if (status == STATUS_OK) status = make_reply(chat, true, NULL, &reply, error);
    if (status == STATUS_OK) status = chat_record_settings(chat, error);
    if (status == STATUS_OK) status = transcript_set_reply(chat->transcript, head, &reply, error);
    return settle_turn(chat, status);
}

double chat_share(Chat *chat) {
    ConversationView view;
    Error ignored;
    if (chat->used < 0) {
        if (conversation_view(chat->conversation, false, &view, &ignored)) return 0;
        chat->used = view.tokens.n;
        conversation_view_free(&view);
    }
    return (double)chat->used / (double)engine_context_size(chat->engine);
}

char *chat_clean_text(const char *text, size_t size) {
    if (size > SIZE_MAX / 3 - 5) return NULL;
    char *clean = malloc(UTF8_STREAM_ROOM(size) + 1);
    if (!clean) return NULL;
    Utf8Stream stream = {0};
    size_t n = 0;
    for (size_t at = 0; at < size; at++) {
        const char *byte = text[at] ? text + at : "\xff";
        n += utf8_stream_push(&stream, byte, 1, clean + n);
    }
    n += utf8_stream_flush(&stream, clean + n);
    clean[n] = 0;
    return clean;
}

// ---- keeping ----------------------------------------------------------------------------------------------

void chat_save(Chat *chat) {
    if (!chat->journal) return;
    Error error;
    Status status = journal_sync(chat->journal, chat->transcript, &error);
    if (status && !chat->journal_failed) screen_error(chat->screen, "%s", error.message);
    if (!status && chat->journal_failed) screen_notice(chat->screen, "[the journal is complete again]");
    chat->journal_failed = status != STATUS_OK;
}

static TranscriptModel chat_model(const Chat *chat) {
    return (TranscriptModel){.name = engine_model(chat->engine)->name,
                             .path = chat->model_path,
                             .fingerprint = chat->fingerprint,
                             .chat_template = chat_template_name(chat->chat_template)};
}

// Parameters, bytes and vocabulary of the model, as FNV-1a over what tells two models apart.
static void make_fingerprint(Chat *chat) {
    const Model *model = engine_model(chat->engine);
    const Tokenizer *tokenizer = engine_tokenizer(chat->engine);
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t id = 0; id < tokenizer_size(tokenizer); id++) {
        size_t size;
        const char *piece = tokenizer_piece(tokenizer, (int32_t)id, &size);
        for (size_t i = 0; i <= size; i++) hash = (hash ^ (unsigned char)piece[i]) * 0x100000001b3u;
    }
    snprintf(chat->fingerprint, sizeof chat->fingerprint, "%.16s-%" PRId64 "-%" PRId64 "-%016" PRIx64,
             model->architecture, model->n_parameters, model->weight_bytes, hash);
}

static Status new_transcript(Chat *chat, const char *system, Transcript **transcript, Error *error) {
    TranscriptHeader header = {.model = chat_model(chat), .seed = chat->seed, .stream = chat->stream};
    Status status = transcript_new(&header, transcript, error);
    if (status == STATUS_OK && system && *system &&
        (status = transcript_set_system(*transcript, system, error))) {
        transcript_free(*transcript);
        *transcript = NULL;
    }
    return status;
}

// Replaces transcript and journal by those of another conversation.
static void adopt(Chat *chat, Transcript *transcript, Journal *journal) {
    transcript_free(chat->transcript);
    journal_close(chat->journal);
    chat->transcript = transcript;
    chat->journal = journal;
    chat->has_last = chat->warned_full = chat->warned_next = chat->journal_failed = false;
    free(chat->attachment);
    chat->attachment = NULL;
}

static Status optional_journal(const Chat *chat, Journal **journal, Error *error) {
    *journal = NULL;
    return chat->options->no_save ? STATUS_OK : journal_new(journal, error);
}

Status chat_clear(Chat *chat, Error *error) {
    Transcript *transcript;
    Journal *journal;
    chat->stream++;
    Status status = new_transcript(chat, transcript_system(chat->transcript), &transcript, error);
    if (status) return status;
    if ((status = optional_journal(chat, &journal, error))) {
        transcript_free(transcript);
        return status;
    }
    adopt(chat, transcript, journal);
    conversation_settings(chat->conversation)->stream = chat->stream;
    conversation_settings(chat->conversation)->position = 0;
    return chat_project(chat, error);
}

// A transcript of other hands: its ids have to be this model's, or they are forgotten.
static Status check_model(Chat *chat, Transcript *transcript, Error *error) {
    TranscriptModel ours = chat_model(chat), theirs = transcript_header(transcript).model;
    if (strcmp(ours.fingerprint, theirs.fingerprint) || strcmp(ours.chat_template, theirs.chat_template)) {
        screen_notice(chat->screen,
                      "[this conversation was with %s (template %s); its replies are read again as text]",
                      *theirs.name ? theirs.name : theirs.path, theirs.chat_template);
        return transcript_set_model(transcript, &ours, error);
    }
    for (int i = 0; i < transcript_n_nodes(transcript); i++) {
        const TranscriptReply *reply = &transcript_node(transcript, i)->reply;
        for (int64_t k = 0; k < reply->n_ids; k++)
            if (reply->ids[k] >= tokenizer_size(engine_tokenizer(chat->engine)))
                return error_set(error, STATUS_FILE,
                                 "the conversation is damaged: token %d is not in the vocabulary",
                                 reply->ids[k]);
    }
    return STATUS_OK;
}

// The random numbers go on where the log ends, unless another seed is asked for.
static void restore_numbers(Chat *chat) {
    TranscriptHeader header = transcript_header(chat->transcript);
    ConversationSettings *settings = conversation_settings(chat->conversation);
    int64_t wanted = chat->config->sampling.seed;
    chat->seed = wanted == CONFIG_SEED_RANDOM ? header.seed : (uint64_t)wanted;
    chat->stream = header.stream;
    settings->seed = chat->seed;
    settings->stream = chat->stream;
    settings->position = chat->seed == header.seed ? transcript_position(chat->transcript) : 0;
}

Status chat_set_seed(Chat *chat, uint64_t seed, Error *error) {
    Status status = transcript_set_seed(chat->transcript, seed, 0, error);
    if (status) return status;
    chat->seed = seed;
    conversation_settings(chat->conversation)->seed = seed;
    conversation_settings(chat->conversation)->position = 0;
    chat_save(chat);
    return STATUS_OK;
}

Status chat_load(Chat *chat, Transcript *transcript, Error *error) {
    Journal *journal;
    Status status = check_model(chat, transcript, error);
    if (status == STATUS_OK) status = optional_journal(chat, &journal, error);
    if (status) {
        transcript_free(transcript);
        return status;
    }
    adopt(chat, transcript, journal);
    restore_numbers(chat);
    status = chat_project(chat, error);
    chat_save(chat);
    return status;
}

// ---- life -------------------------------------------------------------------------------------------------

static Status open_template(Chat *chat, Error *error) {
    const char *name = chat->config->model.template;
    if (name && *name && strcmp(name, "auto")) return chat_template_open(name, &chat->chat_template, error);
    bool recognised;
    const char *jinja = engine_jinja_template(chat->engine);
    Status status = chat_template_recognise(jinja, engine_tokenizer(chat->engine), &chat->chat_template,
                                            &recognised, error);
    if (status == STATUS_OK && !recognised)
        screen_warn(chat->screen, "[%s: this chat uses %s; --template chooses another]",
                    jinja ? "the model's chat template is not one that palaver knows"
                          : "the model has no chat template",
                    chat_template_name(chat->chat_template));
    return status;
}

Status chat_open(Chat *chat, Journal *journal, Transcript *transcript, Error *error) {
    chat->transcript = transcript;
    if (chat->options->no_save)
        journal_close(journal); // what was resumed is only read
    else
        chat->journal = journal;
    chat->seed = chat->config->sampling.seed == CONFIG_SEED_RANDOM ? seed_random()
                                                                   : (uint64_t)chat->config->sampling.seed;
    Status status = open_template(chat, error);
    if (status) return status;
    make_fingerprint(chat);
    ConversationSettings settings = {.seed = chat->seed, .sampler = sampler_default_settings()};
    status = conversation_open(chat->engine, chat->chat_template, &settings, &chat->conversation, error);
    if (status) return status;
    session_set_interrupt(conversation_session(chat->conversation), signals_interrupt());
    session_set_progress(conversation_session(chat->conversation), (Progress){on_reading, chat});
    if (transcript) {
        status = check_model(chat, transcript, error);
        if (status == STATUS_OK) chat_restore_settings(chat);
        if (status == STATUS_OK) restore_numbers(chat);
        if (status == STATUS_OK && chat->seed != transcript_header(transcript).seed)
            status = transcript_set_seed(transcript, chat->seed, 0, error);
    } else {
        status = new_transcript(chat, NULL, &chat->transcript, error);
        if (status == STATUS_OK) status = optional_journal(chat, &chat->journal, error);
    }
    if (status == STATUS_OK) status = chat_apply_settings(chat, error);
    return status ? status : chat_project(chat, error);
}

void chat_close(Chat *chat) {
    conversation_close(chat->conversation);
    chat_template_close(chat->chat_template);
    transcript_free(chat->transcript);
    journal_close(chat->journal);
    free(chat->biases);
    free(chat->attachment);
    free(chat->overflow);
    chat->conversation = NULL;
    chat->chat_template = NULL;
    chat->transcript = NULL;
    chat->journal = NULL;
    chat->biases = NULL;
    chat->attachment = NULL;
    chat->overflow = NULL;
}
