// What is kept of a chat: its transcript, in a journal or a file.
#include "app/chat/chat_internal.h"
#include "app/chat/look/report.h"
#include "app/chat/way.h"
#include "app/record/journal_list.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/file.h"

#include <stdio.h>
#include <string.h>

const char *chat_record_name(const Chat *chat) {
    return chat->record.journal ? journal_name(chat->record.journal) : NULL;
}

const char *chat_record_wished_name(const Chat *chat) {
    return chat->record.journal ? journal_wished_name(chat->record.journal) : "";
}

Status chat_record_write(Chat *chat, char *renamed, Error *error) {
    char told[JOURNAL_NAME_ROOM];
    snprintf(told, sizeof told, "%s", journal_wished_name(chat->record.journal));
    Status status = journal_sync(chat->record.journal, chat->transcript, error);
    const char *name = journal_name(chat->record.journal);
    *renamed = 0;
    if (*told && *name && strcmp(told, name) != 0)
        snprintf(renamed, CHAT_RENAMED, "the name %.500s is taken: this conversation is kept as %.500s",
                 text_name(told).text, text_name(name).text);
    return status;
}

static Status sync_journal(Chat *chat, Error *error) {
    char renamed[CHAT_RENAMED];
    Status status = chat_record_write(chat, renamed, error);
    if (*renamed) screen_notice(chat->screen, "[%s]", renamed);
    return status;
}

void chat_record_sync(Chat *chat) {
    if (!chat->record.journal) return;
    Error error;
    Status status = sync_journal(chat, &error);
    if (status && !chat->record.failed) screen_error(chat->screen, "%s", error.message);
    if (!status && chat->record.failed) screen_notice(chat->screen, "[the journal is complete again]");
    chat->record.failed = status;
}

Status chat_record_save(Chat *chat, const char *path, Error *error) {
    size_t size;
    const char *log = transcript_log(chat->transcript, &size);
    if (file_write(path, log, size, 0600, error)) return error->status;
    chat->record.saved = size;
    return STATUS_OK;
}

bool chat_record_is_kept(const Chat *chat) {
    size_t size;
    (void)transcript_log(chat->transcript, &size);
    return !chat->record.journal || !chat->record.failed || chat->record.saved == size;
}

Status chat_record_make(Chat *chat, const char *system, Transcript **transcript, Error *error) {
    TranscriptHeader header = {.script = !chat->interactive,
                               .model = chat_model_describe(chat),
                               .seed = chat->numbers.seed,
                               .stream = chat->numbers.stream};
    Status status = transcript_new(&header, transcript, error);
    if (!status && system && *system && (status = transcript_set_system(*transcript, system, error))) {
        transcript_free(*transcript);
        *transcript = NULL;
    }
    return status;
}

// Replaces transcript and journal by those of another conversation.
static void adopt(Chat *chat, Transcript *transcript, Journal *journal) {
    chat_snapshot_keep(chat);
    chat->record.restored = 0;
    chat->record.reading = 0;
    chat->told.restored = true;
    transcript_free(chat->transcript);
    journal_close(chat->record.journal);
    chat->transcript = transcript;
    chat->record.journal = journal;
    chat->has_last = chat->record.failed = false;
    report_again(chat);
    chat->record.saved = 0;
    (void)chat_turn_detach(chat);
}

Status chat_record_begin(const Chat *chat, const char *name, Journal **journal, Error *error) {
    *journal = NULL;
    return chat->options->no_save ? STATUS_OK : journal_new(name, journal, error);
}

// A conversation of which neither the journal nor a file of /save has all is not left. What was set since its last turn
// comes back with it.
static Status check_kept(Chat *chat, Error *error) {
    size_t size;
    if (chat_tree(chat)->n && chat_settings_record(chat, error)) return error->status;
    (void)transcript_log(chat->transcript, &size);
    if (!chat->record.journal || chat->record.saved == size) return STATUS_OK;
    if (sync_journal(chat, error))
        return error_prefix(error, "this conversation would be lost; /save FILE keeps it: ");
    return STATUS_OK;
}

Status chat_record_new(Chat *chat, const char *name, Error *error) {
    Transcript *transcript;
    Journal *journal;
    Status status = check_kept(chat, error);
    if (status) return status;
    chat->numbers.stream = chat_seed_next_stream(chat);
    status = chat_record_make(chat, transcript_system(chat->transcript), &transcript, error);
    if (status) return status;
    MessageList none = {0};
    status = way_prepare(&(Way){.transcript = transcript, .index = TREE_START}, &none, error);
    if (!status) status = chat_record_begin(chat, name, &journal, error);
    if (status) {
        message_list_free(&none);
        transcript_free(transcript);
        return status;
    }
    adopt(chat, transcript, journal);
    way_take(chat, &none);
    session_drop_shifted(conversation_session(chat->conversation));
    conversation_settings(chat->conversation)->stream = chat->numbers.stream;
    conversation_settings(chat->conversation)->position = 0;
    return STATUS_OK;
}

Status chat_record_load(Chat *chat, Transcript *transcript, Journal *journal, Error *error) {
    MessageList list = {0};
    char from[JOURNAL_NAME_ROOM] = "";
    Status status = check_kept(chat, error);
    if (journal) snprintf(from, sizeof from, "%s", journal_name(journal));
    if (!status) status = chat_model_check(chat, transcript, error);
    Way way = {.transcript = transcript, .index = transcript_tree(transcript)->head};
    if (!status) status = way_prepare(&way, &list, error);
    if (!status && !journal) status = chat_record_begin(chat, NULL, &journal, error);
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
    session_drop_shifted(conversation_session(chat->conversation));
    chat_snapshot_restore(chat, from);
    chat_settings_restore(chat);
    status = chat_seed_restore(chat, error);
    if (!status) status = chat_settings_apply(chat, error);
    chat_record_sync(chat);
    return status;
}

Status chat_record_fork(Chat *chat, const char *name, Error *error) {
    Transcript *copy;
    Journal *journal;
    size_t size;
    if (check_kept(chat, error)) return error->status;
    const char *log = transcript_log(chat->transcript, &size);
    Status status = transcript_parse("fork", log, size, &copy, error);
    if (status) return status;
    status = journal_new(name, &journal, error);
    if (!status && (status = journal_sync(journal, copy, error))) {
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
