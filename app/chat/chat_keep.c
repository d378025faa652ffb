// A chat's beginning and end, and what is kept of it: transcripts, journals, seeds, which model they belong to.
#include "app/chat/chat_way.h"

#include "app/record/journal_list.h"
#include "app/load.h"
#include "app/signals.h"
#include "kernels/base/hash.h"
#include "engine/model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- keeping ----------------------------------------------------------------------------------------------

void chat_save(Chat *chat) {
    if (!chat->journal) return;
    Error error;
    Status status = journal_sync(chat->journal, chat->transcript, &error);
    if (status && !chat->journal_failed) screen_error(chat->screen, "%s", error.message);
    if (!status && chat->journal_failed) screen_notice(chat->screen, "[the journal is complete again]");
    chat->journal_failed = status != STATUS_OK;
}

bool chat_is_kept(const Chat *chat) {
    size_t size;
    (void)transcript_log(chat->transcript, &size);
    return !chat->journal || !chat->journal_failed || chat->saved == size;
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
    uint64_t hash = HASH_START;
    for (int64_t id = 0; id < tokenizer_size(tokenizer); id++) {
        size_t size;
        const char *piece = tokenizer_piece(tokenizer, (int32_t)id, &size);
        hash = hash_bytes(hash, piece, size + 1);
    }
    snprintf(chat->fingerprint, sizeof chat->fingerprint, "%.16s-%" PRId64 "-%" PRId64 "-%016" PRIx64,
             model->architecture, model->n_parameters, model->weight_bytes, hash);
}

static Status new_transcript(Chat *chat, const char *system, Transcript **transcript, Error *error) {
    TranscriptHeader header = {
        .script = !chat->interactive, .model = chat_model(chat), .seed = chat->seed, .stream = chat->stream};
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
    chat->saved = 0;
    free(chat->attachment);
    chat->attachment = NULL;
}

static Status optional_journal(const Chat *chat, const char *name, Journal **journal, Error *error) {
    *journal = NULL;
    return chat->options->no_save ? STATUS_OK : journal_new(name, journal, error);
}

// A conversation of which neither the journal nor a file of /save has all is not left. What was set since its last turn
// comes back with it.
static Status check_kept(Chat *chat, Error *error) {
    size_t size;
    if (chat_tree(chat)->n && chat_record_settings(chat, error)) return error->status;
    (void)transcript_log(chat->transcript, &size);
    if (!chat->journal || chat->saved == size) return STATUS_OK;
    if (journal_sync(chat->journal, chat->transcript, error))
        return error_prefix(error, "this conversation would be lost; /save FILE keeps it: ");
    return STATUS_OK;
}

Status chat_clear(Chat *chat, const char *name, Error *error) {
    Transcript *transcript;
    Journal *journal;
    Status status = check_kept(chat, error);
    if (status) return status;
    chat->stream = ++chat->newest_stream;
    status = new_transcript(chat, transcript_system(chat->transcript), &transcript, error);
    if (status) return status;
    MessageList none = {0};
    status = way_prepare(&(Way){.transcript = transcript, .index = TREE_START}, &none, error);
    if (status == STATUS_OK) status = optional_journal(chat, name, &journal, error);
    if (status) {
        message_list_free(&none);
        transcript_free(transcript);
        return status;
    }
    adopt(chat, transcript, journal);
    way_take(chat, &none);
    session_forget_gone(conversation_session(chat->conversation));
    conversation_settings(chat->conversation)->stream = chat->stream;
    conversation_settings(chat->conversation)->position = 0;
    return STATUS_OK;
}

// A transcript of other hands: its ids have to be this model's, or they are forgotten.
static Status check_model(Chat *chat, Transcript *transcript, Error *error) {
    TranscriptModel ours = chat_model(chat), theirs = transcript_header(transcript).model;
    if (strcmp(ours.fingerprint, theirs.fingerprint) || strcmp(ours.chat_template, theirs.chat_template)) {
        if (transcript_tree(transcript)->n)
            screen_notice(
                chat->screen,
                *theirs.chat_template
                    ? "[this conversation was with %s (template %s); its replies are read again as text]"
                    : "[this conversation was with %s%s; its replies are read as text]",
                *theirs.name   ? theirs.name
                : *theirs.path ? theirs.path
                               : "a model that it does not name",
                theirs.chat_template);
        return transcript_set_model(transcript, &ours, error);
    }
    for (int i = 0; i < transcript_tree(transcript)->n; i++) {
        const TranscriptReply *reply = &transcript_node(transcript, i)->reply;
        int64_t k = 0;
        while (k < reply->n_ids && reply->ids[k] < tokenizer_size(engine_tokenizer(chat->engine))) k++;
        if (k == reply->n_ids) continue;
        char name[TREE_NAME_ROOM];
        tree_name(transcript_tree(transcript), i, name);
        screen_warn(chat->screen,
                    "[the conversation is damaged: token %d of %s is not in the vocabulary; its reply is "
                    "read again as "
                    "text]",
                    reply->ids[k], name);
        transcript_drop_ids(transcript, i);
    }
    return STATUS_OK;
}

// The random numbers go on where the log ends, unless another seed is asked for.
static Status restore_numbers(Chat *chat, Error *error) {
    TranscriptHeader header = transcript_header(chat->transcript);
    ConversationSettings *settings = conversation_settings(chat->conversation);
    int64_t wanted = chat->settings->sampling.seed;
    chat->seed = wanted == SETTINGS_SEED_RANDOM ? header.seed : (uint64_t)wanted;
    chat->stream = header.stream;
    if (chat->newest_stream < chat->stream) chat->newest_stream = chat->stream;
    settings->seed = chat->seed;
    settings->stream = chat->stream;
    settings->position = chat->seed == header.seed ? transcript_position(chat->transcript) : 0;
    return chat->seed == header.seed ? STATUS_OK
                                     : transcript_set_seed(chat->transcript, chat->seed, 0, error);
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

Status chat_load(Chat *chat, Transcript *transcript, Journal *journal, Error *error) {
    MessageList list = {0};
    Status status = check_kept(chat, error);
    if (status == STATUS_OK) status = check_model(chat, transcript, error);
    Way way = {.transcript = transcript, .index = transcript_tree(transcript)->head};
    if (status == STATUS_OK) status = way_prepare(&way, &list, error);
    if (status == STATUS_OK && !journal) status = optional_journal(chat, NULL, &journal, error);
    if (status) {
        message_list_free(&list);
        transcript_free(transcript);
        journal_close(journal);
        return status;
    }
    if (chat->options->no_save) { // what was opened is only read
        journal_close(journal);
        journal = NULL;
    }
    adopt(chat, transcript, journal);
    way_take(chat, &list);
    session_forget_gone(conversation_session(chat->conversation));
    chat_restore_settings(chat);
    status = restore_numbers(chat, error);
    if (status == STATUS_OK) status = chat_apply_settings(chat, error);
    chat_save(chat);
    return status;
}

Status chat_fork(Chat *chat, const char *name, Error *error) {
    Transcript *copy;
    Journal *journal;
    size_t size;
    if (check_kept(chat, error)) return error->status;
    const char *log = transcript_log(chat->transcript, &size);
    Status status = transcript_parse("fork", log, size, &copy, error);
    if (status) return status;
    status = journal_new(name, &journal, error);
    if (status == STATUS_OK && (status = journal_sync(journal, copy, error))) {
        Error second;
        char made[JOURNAL_NAME_ROOM];
        snprintf(made, sizeof made, "%s", journal_name(journal));
        journal_close(journal);
        if (*made) (void)journal_delete(made, &second); // half a copy is none
    }
    if (status)
        transcript_free(copy);
    else
        adopt(chat, copy, journal);
    return status;
}

// ---- life -------------------------------------------------------------------------------------------------

// What belongs to the engine: template, think tokens, and a conversation without messages.
static Status open_model(Chat *chat, Error *error) {
    Status status = load_template(chat->screen, chat->settings, chat->engine, &chat->chat_template, error);
    if (status) return status;
    chat->thinking = chat->settings->model.thinking;
    make_fingerprint(chat);
    thoughts_find(&chat->thoughts, engine_tokenizer(chat->engine));
    ConversationSettings settings = {.seed = chat->seed, .sampler = sampler_default_settings()};
    status = conversation_open(chat->engine, chat->chat_template, &settings, &chat->conversation, error);
    if (status) return status;
    session_set_interrupt(conversation_session(chat->conversation), signals_interrupt());
    return STATUS_OK;
}

static void close_model(Chat *chat) {
    conversation_close(chat->conversation);
    chat_template_close(chat->chat_template);
    free(chat->biases);
    chat->conversation = NULL;
    chat->chat_template = NULL;
    chat->biases = NULL;
}

Status chat_open(Chat *chat, Journal *journal, Transcript *transcript, Error *error) {
    chat->transcript = transcript;
    if (chat->options->no_save)
        journal_close(journal); // what was resumed is only read
    else
        chat->journal = journal;
    chat->seed = chat->settings->sampling.seed == SETTINGS_SEED_RANDOM
                     ? settings_random_seed()
                     : (uint64_t)chat->settings->sampling.seed;
    chat->thoughts.mode = chat->interactive ? THINK_DIM : THINK_SHOW;
    Status status = open_model(chat, error);
    if (status) return status;
    if (transcript) {
        status = check_model(chat, transcript, error);
        if (status == STATUS_OK) chat_restore_settings(chat);
        if (status == STATUS_OK) status = restore_numbers(chat, error);
    } else {
        status = new_transcript(chat, NULL, &chat->transcript, error);
        if (status == STATUS_OK) status = optional_journal(chat, NULL, &chat->journal, error);
    }
    if (status == STATUS_OK) status = chat_apply_settings(chat, error);
    return status ? status : chat_project(chat, error);
}

// The new engine beside the old one, with all that belongs to it; the transcript learns of it last.
static Status open_other(Chat *other, const char *path, Error *error) {
    config_clear(&other->settings->config, CONFIG_MODEL);
    Status status = load_engine(other->screen, other->settings, path, (LoadRoom){.n_sequences = 1},
                                &other->engine, error);
    if (status == STATUS_OK) status = open_model(other, error);
    if (status == STATUS_OK) status = chat_apply_settings(other, error);
    if (status == STATUS_OK) status = check_model(other, other->transcript, error);
    if (status) {
        close_model(other);
        engine_close(other->engine);
    }
    return status;
}

// Whether two models and their templates understand each other's ids.
static bool same_ids(const Chat *a, const Chat *b) {
    return !strcmp(a->fingerprint, b->fingerprint) &&
           !strcmp(chat_template_name(a->chat_template), chat_template_name(b->chat_template));
}

static void forget_ids(MessageList *list) {
    for (int i = 0; i < list->n; i++) {
        Message *message = &list->messages[i];
        free(message->ids);
        message->ids = NULL;
        message->n_ids = message->n_gone = 0;
    }
}

Status chat_change_model(Chat *chat, const char *name, Error *error) {
    char path[PATH_ROOM];
    Settings before;
    if (path_find_model(name, NULL, path, error) || settings_copy(&before, chat->settings, error))
        return error->status;
    path_make_absolute(path);
    Chat other = *chat;
    other.model_path = path;
    other.engine = NULL;
    other.chat_template = NULL;
    other.conversation = NULL;
    other.biases = NULL;
    MessageList list = {0};
    Status status = way_prepare_here(chat, &list, error);
    if (status == STATUS_OK) status = open_other(&other, path, error);
    // Its record may have made the ids void: then they are read again as text, which needs less.
    if (status == STATUS_OK && !same_ids(chat, &other)) forget_ids(&list);
    if (status) {
        message_list_free(&list);
        settings_free(chat->settings);
        *chat->settings = before;
        return status;
    }
    settings_free(&before);
    conversation_settings(other.conversation)->position = conversation_settings(chat->conversation)->position;
    close_model(chat);
    engine_close(chat->engine);
    memcpy(chat->model_path, path, sizeof path);
    other.model_path = chat->model_path;
    *chat = other;
    chat->has_last = chat->warned_full = chat->warned_next = false;
    way_take(chat, &list);
    chat_save(chat);
    return STATUS_OK;
}

void chat_close(Chat *chat) {
    close_model(chat);
    transcript_free(chat->transcript);
    journal_close(chat->journal);
    free(chat->attachment);
    free(chat->overflow);
    free(chat->left);
    chat->transcript = NULL;
    chat->journal = NULL;
    chat->attachment = NULL;
    chat->overflow = NULL;
    chat->left = NULL;
}
