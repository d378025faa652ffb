// One conversation with its template, its transcript, its journal and what is shown of it: what a turn of chat is,
// whoever asks for it. What it consists of is in chat_internal.h; the headings name the files.
#ifndef PALAVER_APP_CHAT_H
#define PALAVER_APP_CHAT_H

#include "app/chat/thoughts.h"
#include "app/options/options.h"
#include "app/record/journal.h"
#include "app/record/transcript/transcript.h"
#include "app/settings/settings.h"
#include "app/terminal/screen/screen.h"
#include "engine/talk/conversation.h"

typedef struct Chat Chat;

// ---- beginning and end (chat_open.c) --------------------------------------------------------------------------

typedef struct ChatOpening {
    // These outlive the chat.
    const Options *options;
    Settings *settings;
    Screen *screen;
    const char *model; // the path of the engine's
    bool interactive;  // a person at a terminal, not a script
    Engine *guesser;   // the model that guesses for it (engine/talk/drafts/guesser.h); NULL: none
    // These are taken over, whatever happens.
    Engine *engine;
    Journal *journal;       // with --resume; NULL: a new one
    Transcript *transcript; // likewise
} ChatOpening;

// Opens the template, the conversation and its transcript; with --resume those of the journal. On failure *chat is
// NULL.
Status chat_open(const ChatOpening *with, Chat **chat, Error *error);
void chat_close(Chat *chat); // NULL is fine

// ---- what there is of it (chat.c) -----------------------------------------------------------------------------

const Options *chat_options(const Chat *chat);
Settings *chat_settings(const Chat *chat);
Screen *chat_screen(const Chat *chat);
bool chat_is_interactive(const Chat *chat);
const Engine *chat_engine(const Chat *chat); // the present model's
Conversation *chat_conversation(const Chat *chat);
Transcript *chat_transcript(const Chat *chat);
const Tree *chat_tree(const Chat *chat); // of the conversation's turns
Thoughts *chat_thoughts(Chat *chat);
double chat_share(Chat *chat); // of the context that is used, 0 … 1

// What came of writing to stdout: the first failure is said, unless the reader has left, and is chat_output() from then
// on. An interrupt is none: it ends the work anyway.
void chat_note_output(Chat *chat, Status status, const Error *error);
Status chat_output(const Chat *chat); // not STATUS_OK once stdout takes no more

void chat_leave(Chat *chat); // /quit: no turn comes any more
bool chat_is_leaving(const Chat *chat);
// The last reply ends before it is what was asked for: --json-schema, --regex, --grammar.
bool chat_is_unfit(const Chat *chat);

// ---- turns (chat_turn.c) --------------------------------------------------------------------------------------

// One turn: what `text` (UTF-8) asks is answered on the screen, and both are kept. A text that waits from
// /file goes first. A Ctrl-C during the reply is no failure; one while the prompt is read in is
// STATUS_INTERRUPTED. After a failure everything is as it was before, except that where the backend is lost,
// STATUS_FATAL, what was said so far is kept as after a Ctrl-C, and a question without an answer as such.
Status chat_turn_ask(Chat *chat, const char *text, Error *error);

// A turn at any place of the tree.
typedef struct ChatTurn {
    int parent;       // the node it follows, or TREE_START
    const char *why;  // one word for the journal: "ask", "retry", "edit"
    const char *text; // [size] UTF-8
    size_t size;
    const uint64_t *seed; // NULL: the conversation's own random numbers go on
} ChatTurn;

// As chat_turn_ask(), but without what waits from /file.
Status chat_turn_ask_at(Chat *chat, const ChatTurn *turn, Error *error);

// Goes on with the last reply; answers what /say put there without one.
Status chat_turn_continue(Chat *chat, Error *error);

// Puts a message there without an answer: the assistant's is the reply to a question that has none, all others are
// turns of their own. STATUS_USAGE: the template has no place for it.
Status chat_turn_say(Chat *chat, ChatRole role, const char *text, Error *error);

// /file: `text` waits to be put before the next turn, behind what waits already.
Status chat_turn_attach(Chat *chat, const char *text, Error *error);
bool chat_turn_detach(Chat *chat); // takes all of it away again; false: nothing waited

// ---- what is kept (chat_record.c) -----------------------------------------------------------------------------

// The journal's name: "" before the first turn; NULL: there is none (--no-save).
const char *chat_record_name(const Chat *chat);
const char *
chat_record_wished_name(const Chat *chat); // what it is to be called, where it has no name yet; or ""

// Writes the journal; what fails is said once and the chat goes on.
void chat_record_sync(Chat *chat);
// Writes the conversation to a file of its own (/save).
Status chat_record_save(Chat *chat, const char *path, Error *error);
// Whether nothing of the conversation would be lost now: the journal or a file of /save has all, or none was wanted.
bool chat_record_is_kept(const Chat *chat);

// Begins a new conversation with the same model and system prompt; its journal is called `name` (NULL: by the time).
// Here and in chat_record_load(), STATUS_FILE: the present one's journal cannot be written, and /save did not keep it
// either.
Status chat_record_new(Chat *chat, const char *name, Error *error);

// Takes another transcript over (/load), with its journal (NULL: a new one), whatever happens; the same model, but the
// other's settings by hand, as --resume would find them.
Status chat_record_load(Chat *chat, Transcript *transcript, Journal *journal, Error *error);

// Goes on in a copy of the conversation, all its branches, with a journal of its own; this one stays as it is.
Status chat_record_fork(Chat *chat, const char *name, Error *error);

// ---- the model (chat_model.c) ---------------------------------------------------------------------------------

const char *chat_model_path(const Chat *chat);

// Goes on with another model: a path or a name. The turns stay, replies are read again as text. On failure everything
// is as it was.
Status chat_model_change(Chat *chat, const char *name, Error *error);

// ---- random numbers (chat_seed.c) -----------------------------------------------------------------------------

uint64_t chat_seed(const Chat *chat);
// A new seed: the conversation's random numbers begin anew.
Status chat_seed_set(Chat *chat, uint64_t seed, Error *error);
// Of a conversation that is about to begin: no other of this run has it.
uint64_t chat_seed_next_stream(Chat *chat);

// ---- settings (chat_settings.c) -------------------------------------------------------------------------------

// Hands the configuration to the conversation. STATUS_USAGE: a bias names no token.
Status chat_settings_apply(Chat *chat, Error *error);
// Enters them in the transcript, if they changed.
Status chat_settings_record(Chat *chat, Error *error);
// Settings of sampling and context that are set by hand belong to their conversation: puts those of the transcript in
// the place of those that are set, except where a flag says otherwise; one that is not valid any more is left out,
// which is said.
void chat_settings_restore(Chat *chat);

#endif
