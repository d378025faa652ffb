// A running chat: one model, one conversation, and what keeps and shows them.
//
// The transcript is the truth: the conversation's messages are always the path from the beginning to its
// head. A turn that fails leaves the transcript alone, and the messages are put back to what it says.
#ifndef PALAVER_APP_CHAT_H
#define PALAVER_APP_CHAT_H

#include "app/record/journal.h"
#include "app/options.h"
#include "app/settings.h"
#include "app/settings_tell.h"
#include "app/terminal/screen.h"
#include "app/chat/thoughts.h"
#include "app/record/transcript.h"
#include "engine/talk/conversation.h"

typedef struct Chat {
    // What main() opened; it outlives the chat.
    const Options *options;
    Settings *settings;
    Screen *screen;
    Engine *engine;   // the present one is main's to close
    char *model_path; // [PATH_ROOM] the present one's
    bool interactive; // a person at a terminal, not a script

    ChatTemplate *chat_template;
    int thinking; // of the settings, as the template knows it
    Conversation *conversation;
    Transcript *transcript;
    Journal *journal; // NULL: --no-save

    uint64_t seed, stream;        // of the random numbers: each new conversation has a stream of its own
    uint64_t newest_stream;       // the highest of this run
    SamplerBias *biases;          // as the settings name them
    char fingerprint[64];         // of the model, see TranscriptModel
    char *attachment;             // text that /file puts before the next turn; NULL: none
    int parent;                   // the node that the turn in hand follows
    TreeLeft *left;               // [its turns] what of them is out of the window
    TranscriptOverflow *overflow; // [n_overflow] of the turn in hand
    int n_overflow;
    TranscriptOverflow run; // small ones that came after it in the same reply, not told yet; times 0: none
    bool overflow_lost;     // there was no memory to note one
    ReplyReport last;       // of the latest reply
    bool has_last;
    int64_t used;        // tokens in the window; -1: to be counted
    Status output;       // of stdout: not STATUS_OK once it takes no more
    Thoughts thoughts;   // of the reply in hand
    bool speaking;       // the reply in hand has begun
    bool hushed;         // hidden thoughts end here: the empty lines after them are not shown, either
    size_t saved;        // bytes of the log that the last /save wrote
    bool journal_failed; // said once
    bool warned_full, warned_next; // likewise
    SettingsTold told;             // of settings that count for less than they say
    bool leave;                    // /quit
} Chat;

// Opens the template, the conversation and its transcript over the fields that are set; with --resume those
// of the journal. `journal` and `transcript` are taken over (NULL: new ones).
Status chat_open(Chat *chat, Journal *journal, Transcript *transcript, Error *error);
void chat_close(Chat *chat);

// Goes on with another model: a path or a name. The turns stay, replies are read again as text. On failure everything is
// as it was.
Status chat_change_model(Chat *chat, const char *name, Error *error);

// One turn: what `text` (UTF-8) asks is answered on the screen, and both are kept. A text that waits from
// /file goes first. A Ctrl-C during the reply is no failure; one while the prompt is read in is
// STATUS_INTERRUPTED. After a failure everything is as it was before.
Status chat_ask(Chat *chat, const char *text, Error *error);

// A turn at any place of the tree.
typedef struct ChatTurn {
    int parent;       // the node it follows, or TREE_START
    const char *why;  // one word for the journal: "ask", "retry", "edit"
    const char *text; // [size] UTF-8
    size_t size;
    const uint64_t *seed; // NULL: the conversation's own random numbers go on
} ChatTurn;

// As chat_ask(), but without what waits from /file.
Status chat_ask_at(Chat *chat, const ChatTurn *turn, Error *error);

// Goes on with the last reply; answers what /say put there without one.
Status chat_continue(Chat *chat, Error *error);

// Puts a message there without an answer: the assistant's is the reply to a question that has none, all others are turns
// of their own. STATUS_USAGE: the template has no place for it.
Status chat_say(Chat *chat, ChatRole role, const char *text, Error *error);

// Makes the conversation's messages those of the transcript's head.
Status chat_project(Chat *chat, Error *error);

// The tree of the conversation's turns.
const Tree *chat_tree(const Chat *chat);

// The head moves: `why` is one word for the journal ("undo"). The messages follow.
Status chat_go(Chat *chat, int index, const char *why, Error *error);

// Writes the journal; what fails is said once and the chat goes on.
void chat_save(Chat *chat);

// A new seed: the conversation's random numbers begin anew.
Status chat_set_seed(Chat *chat, uint64_t seed, Error *error);

// What came of writing to stdout: the first failure is said, unless the reader has left, and is chat->output from then on.
void chat_note_output(Chat *chat, Status status, const Error *error);

// Whether nothing of the conversation would be lost now: the journal or a file of /save has all, or none was wanted.
bool chat_is_kept(const Chat *chat);

// Begins a new conversation with the same model and system prompt; its journal is called `name` (NULL: by the time). Here
// and in chat_load(), STATUS_FILE: the present one's journal cannot be written, and /save did not keep it either.
Status chat_clear(Chat *chat, const char *name, Error *error);

// Takes another transcript over (/load), with its journal (NULL: a new one), whatever happens; the same model, but the
// other's settings by hand, as --resume would find them.
Status chat_load(Chat *chat, Transcript *transcript, Journal *journal, Error *error);

// Goes on in a copy of the conversation, all its branches, with a journal of its own; this one stays as it is.
Status chat_fork(Chat *chat, const char *name, Error *error);

// Share of the context that is used, 0 … 1.
double chat_share(Chat *chat);

// ---- settings (chat_settings.c) --------------------------------------------------------------------------------

// Hands the configuration to the conversation. STATUS_USAGE: a bias names no token.
Status chat_apply_settings(Chat *chat, Error *error);
// What a conversation's settings say of sampling, overflow, limits and stop strings; seed, stream and position stay. *biases
// (NULL or malloc'ed) becomes what the sampler's settings refer to, as the stop strings do to `settings`.
Status settings_conversation(const Settings *settings, const Tokenizer *tokenizer, SamplerBias **biases,
                             ConversationSettings *to, Error *error);
// Enters them in the transcript, if they changed.
Status chat_record_settings(Chat *chat, Error *error);
// Settings of sampling and context that are set by hand belong to their conversation: puts those of the transcript in the
// place of those that are set, except where a flag says otherwise; one that is not valid any more is left out, which is
// said.
void chat_restore_settings(Chat *chat);

// ---- what leaves the window while a reply is made (chat_overflow.c) ------------------------------------------

// A reply begins: nothing has left yet.
void chat_overflow_begin(Chat *chat);
// Room was made: it is told and noted in chat->overflow. After the first in a reply small ones are added up, so that
// hundreds of them are one line and one record.
void chat_overflow_note(Chat *chat, const OverflowEvent *event);
// The reply has come to its end: what was added up is told and noted. STATUS_MEMORY: not all could be noted.
Status chat_overflow_end(Chat *chat, Error *error);

// ---- lines for people (report.c) --------------------------------------------------------------------------

void report_banner(Chat *chat);
void report_turn(Chat *chat); // the statistics line, if wanted, and warnings
void report_overflow(Chat *chat, const TranscriptOverflow *overflow);
void report_stats(Chat *chat); // /stats

// ---- what the model sees (view.c) -------------------------------------------------------------------------

typedef enum ViewKind { VIEW_TEXT, VIEW_TOKENS, VIEW_DIFF } ViewKind;
Status view_print(Chat *chat, ViewKind kind, Error *error); // /view
Status view_print_tokens(Screen *screen, const Tokenizer *tokenizer, const char *text, size_t size,
                         Error *error); // /tokens

#endif
