// A reply whose process ends by another thread: what was said of it becomes a turn, as after a Ctrl-C. Its ids, and what was
// evicted for it, are the other thread's: its text counts.
#include "app/chat/chat_internal.h"

#include "app/ranks/rescue.h"
#include "app/record/journal.h"

#include <stdio.h>
#include <string.h>

const char *chat_rescue_words(const Chat *chat, bool has_asked, bool has_answer) {
    if (!chat->record.journal) return "nothing of this conversation is kept (--no-save)";
    if (chat->record.failed) return "the journal could not be written";
    if (has_answer) return "what was finished before, and this answer as far as it was shown, are kept";
    return has_asked ? "what was finished before, and the question, are kept"
                     : "what was finished before is kept";
}

// The screen is the other thread's: what it would have shown goes into the last words.
static void keep(void *context, const char *text, size_t size, char *kept) {
    Chat *chat = context;
    const ChatTurn *turn = chat->reply.turn;
    Error error;
    // The question was noted before it began.
    snprintf(kept, RESCUE_ROOM, "%s", chat_rescue_words(chat, turn != NULL, false));
    if (!chat->record.journal || size == 0) return;
    const TranscriptReply reply = {.text = text,
                                   .size = size,
                                   .seed = chat->reply.seed,
                                   .position = chat->reply.position,
                                   .next = chat->reply.next,
                                   .interrupted = true};
    const TranscriptNode node = {
        .role = CHAT_USER, .text = turn ? turn->text : NULL, .size = turn ? turn->size : 0, .reply = reply};
    Status status = chat_settings_record(chat, &error);
    if (!status && turn)
        status = transcript_add_turn(chat->transcript, turn->parent, turn->why, &node, &error);
    if (!status && !turn)
        status = transcript_set_reply(chat->transcript, chat_tree(chat)->head, &reply, &error);
    char renamed[CHAT_RENAMED] = "";
    if (!status) status = chat_record_write(chat, renamed, &error);
    chat->record.failed = status;
    snprintf(kept, RESCUE_ROOM, "%s%s%s", chat_rescue_words(chat, turn != NULL, true), *renamed ? "; " : "",
             renamed);
}

void chat_rescue_begin(Chat *chat, const ChatTurn *turn) {
    chat->reply.turn = turn;
    rescue_begin(keep, chat);
}
