#include "app/chat/chat_internal.h"
#include "app/chat/look/report.h"
#include "app/chat/way.h"
#include "app/loading/choose_template.h"
#include "app/loading/load.h"
#include "app/loading/model_name.h"
#include "app/models/models.h"
#include "app/process/signals.h"
#include "app/ranks/ranks.h"
#include "app/terminal/text_shown.h"
#include "engine/model/model.h"
#include "kernels/base/hash.h"
#include "kernels/base/path.h"
#include "tokenizer/chat/channels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *chat_model_path(const Chat *chat) {
    return chat->model.path;
}

TranscriptModel chat_model_describe(const Chat *chat) {
    return (TranscriptModel){.name = chat->model.name,
                             .path = chat->model.path,
                             .fingerprint = chat->model.fingerprint,
                             .chat_template = chat_template_name(chat->model.chat_template)};
}

static bool is_visible(char c) { // ASCII
    return c > ' ' && c < 0x7F;
}

// Whether a reply's text is what its ids say, by its visible ASCII: other characters may be spelled in another way, such
// as half of one where a reply was cut off and went on.
static bool ids_say_text(const Tokenizer *tokenizer, const TranscriptReply *reply) {
    const char *text = reply->text, *const end = text + reply->size;
    Channels channels;
    channels_find(&channels, tokenizer);
    channels_begin(&channels);
    for (int64_t k = 0; k < reply->n_ids; k++) {
        size_t size;
        const char *bytes =
            tokenizer_bytes(tokenizer, k ? reply->ids[k - 1] : -1, reply->ids[k], false, &size);
        channels_token(&channels, reply->ids[k], &bytes, &size);
        for (size_t i = 0; i < size; i++) {
            if (!is_visible(bytes[i])) continue;
            while (text < end && !is_visible(*text)) text++;
            if (text == end || *text++ != bytes[i]) return false;
        }
    }
    while (text < end && !is_visible(*text)) text++;
    return text == end;
}

Status chat_model_check(Chat *chat, Transcript *transcript, Error *error) {
    const Tokenizer *tokenizer = engine_tokenizer(chat->model.engine);
    const int32_t vocab =
        engine_model(chat->model.engine)->shape.vocab_size; // pieces, or more where it is padded
    TranscriptModel ours = chat_model_describe(chat), theirs = transcript_header(transcript).model;
    if (strcmp(ours.fingerprint, theirs.fingerprint) || strcmp(ours.chat_template, theirs.chat_template)) {
        char name[PATH_ROOM];
        model_name(theirs.path, theirs.name, name, sizeof name);
        if (transcript_tree(transcript)->n)
            screen_notice(
                chat->screen,
                *theirs.chat_template
                    ? "[this conversation was with %s (template %s); its replies are read again as text]"
                    : "[this conversation was with %s%s; its replies are read as text]",
                *name ? text_name(name).text : "a model that it does not name",
                text_escaped(theirs.chat_template).text);
        return transcript_set_model(transcript, &ours, error);
    }
    for (int i = 0; i < transcript_tree(transcript)->n; i++) {
        const TranscriptReply *reply = &transcript_node(transcript, i)->reply;
        int64_t k = 0;
        while (k < reply->n_ids && reply->ids[k] < vocab) k++;
        const bool known = k == reply->n_ids;
        if (!reply->ids || (known && ids_say_text(tokenizer, reply))) continue;
        char name[TREE_NAME_ROOM];
        tree_name(transcript_tree(transcript), i, name);
        if (known)
            screen_warn(chat->screen, "[the text of %s is not what its tokens say: it is read again as text]",
                        name);
        else
            screen_warn(chat->screen,
                        "[the conversation is damaged: token %d of %s is not in the vocabulary; its reply is "
                        "read again as text]",
                        reply->ids[k], name);
        transcript_drop_ids(transcript, i);
    }
    return STATUS_OK;
}

// ---- opening --------------------------------------------------------------------------------------------

// Parameters, bytes and vocabulary of the model, as FNV-1a over what tells two models apart.
static void make_fingerprint(Chat *chat) {
    const Model *model = engine_model(chat->model.engine);
    const Tokenizer *tokenizer = engine_tokenizer(chat->model.engine);
    uint64_t hash = HASH_START;
    for (int64_t id = 0; id < tokenizer_size(tokenizer); id++) {
        size_t size;
        const char *piece = tokenizer_piece(tokenizer, (int32_t)id, &size);
        hash = hash_bytes(hash, piece, size + 1);
    }
    snprintf(chat->model.fingerprint, sizeof chat->model.fingerprint,
             "%.16s-%" PRId64 "-%" PRId64 "-%016" PRIx64, model->architecture, model->n_parameters,
             model->weight_bytes, hash);
}

Status chat_model_open(Chat *chat, Error *error) {
    Status status =
        choose_template(chat->screen, chat->settings, chat->model.engine, &chat->model.chat_template, error);
    if (status) return status;
    chat->model.thinking = chat->settings->model.thinking;
    make_fingerprint(chat);
    model_name(chat->model.path, engine_model(chat->model.engine)->name, chat->model.name,
               sizeof chat->model.name);
    thoughts_find(&chat->thoughts, engine_tokenizer(chat->model.engine));
    ConversationSettings settings = {.seed = chat->numbers.seed, .sampler = sampler_default_settings()};
    status = conversation_open(chat->model.engine, chat->model.chat_template, &settings, &chat->conversation,
                               error);
    if (status) return status;
    session_set_interrupt(conversation_session(chat->conversation), signals_interrupt());
    return STATUS_OK;
}

Status chat_model_take_guesser(Chat *chat, Error *error) {
    if (!chat->guesser) return STATUS_OK;
    const char *why = engine_cannot_draft(chat->model.engine);
    if (why) {
        screen_notice(chat->screen, "[nothing is guessed with this model (%s): model.draft is left alone]",
                      why);
        return STATUS_OK;
    }
    if (conversation_set_guesser(chat->conversation, chat->guesser, error))
        return error_prefix(error, "the model that guesses (model.draft): ");
    if (!conversation_guesser_may_pay(chat->conversation))
        screen_notice(chat->screen,
                      "[model.draft will not be asked: to guess takes it too long beside this model]");
    return STATUS_OK;
}

void chat_model_close(Chat *chat) {
    conversation_close(chat->conversation);
    chat_template_close(chat->model.chat_template);
    settings_made_free(&chat->model.made);
    chat->conversation = NULL;
    chat->model.chat_template = NULL;
}

// ---- another one ----------------------------------------------------------------------------------------

// The new engine beside the old one, with all that belongs to it; the transcript learns of it last.
static Status open_other(Chat *other, Error *error) {
    config_clear(&other->settings->config, CONFIG_MODEL);
    Status status =
        load_engine(other->screen, other->settings, other->model.path,
                    (LoadRoom){.n_sequences = 1, .beside = other->guesser}, &other->model.engine, error);
    if (!status) status = chat_model_open(other, error);
    Error without;
    if (!status && chat_model_take_guesser(other, &without))
        screen_warn(other->screen, "[%s: the talk goes on without it]", without.message);
    if (!status) status = chat_settings_apply(other, error);
    if (!status) status = chat_model_check(other, other->transcript, error);
    if (status) {
        chat_model_close(other);
        engine_close(other->model.engine);
    }
    return status;
}

// Whether two models and their templates understand each other's ids.
static bool same_ids(const Chat *a, const Chat *b) {
    return !strcmp(a->model.fingerprint, b->model.fingerprint) &&
           !strcmp(chat_template_name(a->model.chat_template), chat_template_name(b->model.chat_template));
}

static void drop_ids(MessageList *list) {
    for (int i = 0; i < list->n; i++) message_drop_ids(&list->messages[i]);
}

Status chat_model_change(Chat *chat, const char *name, Error *error) {
    char path[PATH_ROOM], folder[PATH_ROOM];
    Settings before;
    if (ranks_are_several(chat->settings))
        return error_set(error, STATUS_UNSUPPORTED,
                         "several processes hold this model: leave, and start all of them with another one");
    if (models_path(name, path_program(folder) ? folder : NULL, path, error) ||
        settings_copy(&before, chat->settings, error))
        return error->status;
    path_make_absolute(path);
    Chat other = *chat;
    other.model = (ChatModel){0};
    other.conversation = NULL;
    memcpy(other.model.path, path, sizeof path);
    MessageList list = {0};
    Status status = way_prepare_here(chat, &list, error);
    if (!status) status = open_other(&other, error);
    // Its record may have made the ids void: then they are read again as text, which needs less.
    if (!status && !same_ids(chat, &other)) drop_ids(&list);
    if (status) {
        message_list_free(&list);
        settings_free(chat->settings);
        *chat->settings = before;
        return status;
    }
    settings_free(&before);
    conversation_settings(other.conversation)->position = conversation_settings(chat->conversation)->position;
    chat_model_close(chat);
    engine_close(chat->model.engine);
    *chat = other;
    chat->has_last = false;
    report_again(chat);
    way_take(chat, &list);
    chat_record_sync(chat);
    return STATUS_OK;
}
