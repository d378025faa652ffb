#include "app/chat/chat_internal.h"
#include "app/chat/way.h"
#include "app/record/journal_list.h"

#include <stdio.h>
#include <stdlib.h>

// A new conversation, or the one that goes on.
static Status open_record(Chat *chat, Error *error) {
    Status status;
    if (chat->transcript) {
        status = chat_model_check(chat, chat->transcript, error);
        if (!status) chat_settings_restore(chat);
        if (!status) status = chat_seed_restore(chat, error);
    } else {
        status = chat_record_make(chat, NULL, &chat->transcript, error);
        if (!status) status = chat_record_begin(chat, NULL, &chat->record.journal, error);
    }
    return status;
}

Status chat_open(const ChatOpening *with, Chat **out, Error *error) {
    Chat *chat = *out = calloc(1, sizeof *chat);
    Journal *journal = with->journal;
    char from[JOURNAL_NAME_ROOM] = "";
    if (journal) snprintf(from, sizeof from, "%s", journal_name(journal));
    if (!chat || with->options->no_save) { // what was resumed is only read
        journal_close(journal);
        journal = NULL;
    }
    if (!chat) {
        transcript_free(with->transcript);
        engine_close(with->engine);
        return error_set(error, STATUS_MEMORY, "out of memory");
    }
    *chat = (Chat){.options = with->options,
                   .settings = with->settings,
                   .screen = with->screen,
                   .interactive = with->interactive,
                   .model = {.engine = with->engine},
                   .guesser = with->guesser,
                   .transcript = with->transcript,
                   .record = {.journal = journal},
                   .thoughts = {.mode = with->interactive ? THINK_DIM : THINK_SHOW}};
    snprintf(chat->model.path, sizeof chat->model.path, "%s", with->model);
    chat_seed_begin(chat);
    Status status = chat_model_open(chat, error);
    if (!status) status = chat_model_take_guesser(chat, error);
    if (!status) status = open_record(chat, error);
    if (!status) status = chat_settings_apply(chat, error);
    if (!status) status = way_project_here(chat, error);
    chat->told.restored = true;
    if (!status && with->transcript) chat_snapshot_restore(chat, from);
    if (status) {
        chat_close(chat);
        *out = NULL;
    }
    return status;
}

void chat_close(Chat *chat) {
    if (!chat) return;
    if (chat->conversation && chat->transcript) chat_snapshot_keep(chat);
    chat_model_close(chat);
    engine_close(chat->model.engine);
    chat_snapshot_finish(chat);
    transcript_free(chat->transcript);
    journal_close(chat->record.journal);
    free(chat->attachment);
    free(chat->reply.overflow);
    free(chat->reply.evicted);
    free(chat);
}
