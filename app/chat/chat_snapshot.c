// What is cached of a conversation that is left, for when somebody comes back to it.
#include "app/chat/chat_internal.h"
#include "app/process/signals.h"
#include "app/record/journal_list.h"
#include "kernels/base/hash.h"
#include "kernels/base/text/format.h"

#include <inttypes.h>
#include <string.h>

#define WORTH_READING 1.0 // seconds: what took less is read again as soon

static int64_t limit_of(const Chat *chat) {
    int64_t bytes = 0;
    return format_read_bytes(chat->settings->cache.snapshots, &bytes) ? bytes : 0;
}

// Of what makes ids of a text, besides the tokenizer.
static uint64_t words_of(const Chat *chat) {
    const char *name = chat_template_name(chat->model.chat_template);
    return hash_bytes(HASH_START, name, strlen(name));
}

static void tell_unkept(const Chat *chat, const Error *error) {
    if (error->status != STATUS_INTERRUPTED && error->status != STATUS_FATAL)
        screen_notice(chat->screen, "[no snapshot of this conversation, it will be read again: %s]",
                      error->message);
}

// Whoever closes the window wants it kept as well; Ctrl-C ends the writing, but not the one that has led here.
static const atomic_int *stop_flag(void) {
    if (signals_leave()) return NULL;
    signals_clear_interrupt();
    return signals_interrupt();
}

// What lies there keeps to the limit also where nothing is written: it may have become less.
static void trim(Chat *chat) {
    char bytes[FORMAT_ROOM];
    chat_snapshot_finish(chat);
    int64_t gone = snapshots_trim(limit_of(chat));
    format_bytes((double)gone, bytes);
    if (gone)
        screen_notice(chat->screen,
                      "[older snapshots of conversations are removed, %s: [cache] snapshots = \"%s\"]", bytes,
                      chat->settings->cache.snapshots);
}

void chat_snapshot_keep(Chat *chat) {
    const char *name = chat_record_name(chat);
    Snapshot *snapshot;
    Error error;
    bool aside = !chat->interactive && !chat->options->resume;
    bool worth = !aside || (!chat->options->prompt && chat->record.reading >= WORTH_READING);
    if (!name || !*name || !worth) return;
    const Session *session = conversation_session(chat->conversation);
    bool unchanged = chat->record.restored && snapshot_version(session) == chat->record.restored;
    if (unchanged) snapshots_touch(name);
    if (unchanged || !limit_of(chat)) {
        trim(chat);
        return;
    }
    if (snapshots_allow(snapshot_foresee(session), limit_of(chat), &error) ||
        snapshot_take(session, words_of(chat), &snapshot, &error)) {
        if (!aside) tell_unkept(chat, &error);
        trim(chat);
        return;
    }
    if (!snapshot) return;
    const SnapshotOrder order = {name, limit_of(chat), aside, stop_flag()};
    if (snapshots_begin(&chat->record.writer, snapshot, &order, &error)) tell_unkept(chat, &error);
}

void chat_snapshot_finish(Chat *chat) {
    Error error;
    if (snapshots_end(&chat->record.writer, &error)) tell_unkept(chat, &error);
}

void chat_snapshot_restore(Chat *chat, const char *name) {
    char path[JOURNAL_PATH_ROOM];
    SnapshotRestored restored = {0};
    Error error;
    chat->record.restored = 0;
    chat->told.restored = true;
    if (!name || !*name || !limit_of(chat)) return;
    chat_snapshot_finish(chat); // it may be this one
    Status status = journal_snapshot_path(name, path, &error);
    if (!status)
        status = snapshot_restore(conversation_session(chat->conversation), words_of(chat), path, &restored,
                                  &error);
    if (status)
        screen_notice(chat->screen, "[the snapshot of this conversation is not used, all is read again: %s]",
                      error.message);
    chat->record.restored = restored.version;
    chat->record.n_restored = restored.n_tokens;
    chat->told.restored = restored.n_tokens == 0;
}

void chat_snapshot_tell(Chat *chat) {
    if (chat->told.restored) return;
    chat->told.restored = true;
    // One that is of other words, or of another branch, is of use up to where they differ.
    if (chat->last.cached < chat->record.n_restored)
        screen_notice(chat->screen,
                      "[restored %" PRId64 ": the snapshot's other %" PRId64
                      " tokens are of another text; read %" PRId64 "]",
                      chat->last.cached, chat->record.n_restored - chat->last.cached, chat->last.read);
    else
        screen_notice(chat->screen, "[restored %" PRId64 ", read %" PRId64 "]", chat->last.cached,
                      chat->last.read);
}
