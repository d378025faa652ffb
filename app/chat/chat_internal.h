// What a chat consists of, and what its files share. Only for app/chat.
#ifndef PALAVER_APP_CHAT_INTERNAL_H
#define PALAVER_APP_CHAT_INTERNAL_H

#include "app/settings/settings_conversation.h"
#include "app/chat/chat.h"
#include "app/record/snapshots.h"
#include "app/settings/settings_tell.h"
#include "app/watch/repetition.h"
#include "kernels/base/path.h"

// The model in use, and what was made for it.
typedef struct ChatModel {
    Engine *engine; // owned
    char path[PATH_ROOM];
    char fingerprint[64]; // see TranscriptModel
    char name[256];       // what people call it
    ChatTemplate *chat_template;
    int thinking;      // of the settings, as the template knows it
    SettingsMade made; // what the conversation's settings refer to
} ChatModel;

// Where the conversation is kept.
typedef struct ChatRecord {
    Journal *journal;       // NULL: --no-save
    bool failed;            // it could not be written, which was said
    size_t saved;           // bytes of the log that the last /save wrote
    SnapshotWriter *writer; // NULL: no snapshot is being written
    uint64_t restored;      // snapshot_version() of the one that this conversation goes on from; 0: none
    int64_t n_restored;     // tokens of it
    double reading;         // seconds that were spent on reading it
} ChatRecord;

// Of the random numbers: each new conversation has a stream of its own.
typedef struct ChatNumbers {
    uint64_t seed, stream;
    uint64_t newest_stream; // the highest of this run
} ChatNumbers;

// The reply in hand.
typedef struct ChatReply {
    int parent;                   // the node that its turn follows
    TreeEvicted *evicted;         // [its turns] what of them is
    bool system_evicted;          // the system prompt is
    TranscriptOverflow *overflow; // [n_overflow]
    int n_overflow;
    size_t overflow_room;   // elements that there is memory for
    TranscriptOverflow run; // small ones that came after it in the same reply, not told yet; times 0: none
    bool overflow_lost;     // there was no memory to note one
    bool speaking;          // it has begun
    bool parted;            // a notice stands behind what was said so far
    Error lost;             // why it broke off: the backend is lost; STATUS_OK: it did not
    const ChatTurn *turn;   // that it answers; NULL: it goes on with the last reply
    uint64_t seed, position, next; // of its random numbers, as in its TranscriptReply
    bool has_own_seed;             // the conversation's stay where they are
    Repetition repetition;
    bool looped;          // and was stopped for it
    double started, told; // seconds of the clock: its first token, its speed was told last
    int64_t n_tokens;     // since then
    // It goes on with these bytes, which are on the screen, as far as they were drawn as one with it
    const char *before;
    size_t n_before;
    ScreenStyle before_style;
    bool hushed; // hidden thoughts end here: the empty lines after them are not shown, either
} ChatReply;

// What was said and is not said again.
typedef struct ChatTold {
    bool full;             // that the context is nearly full
    bool next;             // what the next turn would cost
    bool restored;         // how much of the conversation came from a snapshot
    SettingsTold settings; // which settings count for less than they say
} ChatTold;

struct Chat {
    const Options *options;
    Settings *settings;
    Screen *screen;
    bool interactive;

    ChatModel model;
    Engine *guesser;            // see ChatOpening
    Conversation *conversation; // with the model
    Transcript *transcript;
    ChatRecord record;
    ChatNumbers numbers;
    char *attachment; // text that /file puts before the next turn; NULL: none

    Thoughts thoughts; // of the reply in hand
    ChatReply reply;
    ReplyReport last; // of the latest reply
    bool has_last;
    int64_t used; // tokens in the window; -1: to be counted
    ChatTold told;
    Status output; // of stdout: not STATUS_OK once it takes no more
    bool leave;    // /quit
};

// ---- chat_model.c

// Opens what belongs to the engine that is set: template, think tokens, and a conversation without messages.
Status chat_model_open(Chat *chat, Error *error);
// Lets the model that guesses do so in the conversation, if there is one and it can, and says if that will be of no use.
Status chat_model_take_guesser(Chat *chat, Error *error);
void chat_model_close(Chat *chat); // all but the engine
TranscriptModel chat_model_describe(const Chat *chat);
// A transcript of other hands: its ids have to be this model's, or they are forgotten, which is said.
Status chat_model_check(Chat *chat, Transcript *transcript, Error *error);

// ---- chat_record.c

// A transcript without turns, with `system` (may be NULL).
Status chat_record_make(Chat *chat, const char *system, Transcript **transcript, Error *error);
// A new journal, unless none is wanted: then *journal is NULL.
Status chat_record_begin(const Chat *chat, const char *name, Journal **journal, Error *error);
// Writes what the journal lacks. Another palaver, or a link to nothing, may have taken the name that was told: the words
// for that go into renamed [CHAT_RENAMED], else "".
enum { CHAT_RENAMED = 1100 };
Status chat_record_write(Chat *chat, char *renamed, Error *error);

// ---- chat_snapshot.c

// The conversation is left: what is cached of it is being written from now on. What a script leaves stands aside, and
// is worth it only where reading took long; a single question, of which there may be thousands, never is.
void chat_snapshot_keep(Chat *chat);
void chat_snapshot_finish(Chat *chat); // waits for that
// The conversation that is kept under `name` (NULL: nowhere) is come back to: what its snapshot has is cached. One that
// cannot be used is told of.
void chat_snapshot_restore(Chat *chat, const char *name);
// After the first reply from there: how much that was.
void chat_snapshot_tell(Chat *chat);

// ---- chat_rescue.c

// From here on what rescue_add() gets is kept if another thread ends the process (app/ranks/rescue.h), until rescue_settle():
// as the reply to `turn`, or (NULL) in place of the last one.
void chat_rescue_begin(Chat *chat, const ChatTurn *turn);
// What is kept where a reply has broken off.
const char *chat_rescue_words(const Chat *chat, bool has_asked, bool has_answer);

// ---- chat_seed.c

// As the settings say, or a random one.
void chat_seed_begin(Chat *chat);
// The random numbers go on where the log ends, unless another seed is asked for.
Status chat_seed_restore(Chat *chat, Error *error);

// ---- chat_overflow.c: what is evicted while a reply is made

// A reply begins: nothing has been evicted yet.
void chat_overflow_begin(Chat *chat);
// Room was made: it is told and noted in chat->reply. After the first in a reply small ones are added up, so that
// hundreds of them are one line and one record.
void chat_overflow_note(Chat *chat, const OverflowEvent *event);
// The reply has come to its end: what was added up is told and noted. STATUS_MEMORY: not all could be noted.
Status chat_overflow_end(Chat *chat, Error *error);

#endif
