// A conversation as it is kept: an append-only log of records, and the tree of turns that they describe.
//
// A turn is what a person said and what was answered. Turns are nodes of a tree (tree.h). Nothing is ever removed:
// undo moves the head, retry and edit add a sibling.
//
// The log is JSON Lines, one record a line. It says everything: the tree is only what reading it gives, and
// every change is a record that is read back as it is written. Records ("record" names the kind, others are
// skipped):
//
//     palaver   format, version, created, model {name, path, fingerprint, template}, seed, stream; is first
//     model     model {…} from here on; with another fingerprint or template the ids so far are void
//     system    text of the system prompt from here on
//     settings  values {KEY: TEXT} in force from here on; session [KEY]: those set by hand
//     turn      node, parent ("0": the beginning), why, user (or system), and a reply; becomes the head. What /say
//               puts there alone lacks the one or the other
//     reply     node, and a reply that replaces the node's (it was continued)
//     head      node, why (undo, redo, goto)
//     forget    node, first and last: these turns of the way to it were evicted by hand; tokens
//     seed      seed and position of the random numbers from here on (/seed)
//     asked     text of a question that is being answered; without one: it was taken back. The next turn is its answer
//     talked    a person has gone on with it, whose header says that it is a script's (by: "script")
//
// A reply is: reply (text), ids (tokens, where they were sampled), gone (how many of the first were
// evicted), left_out [from, to] (bytes of the user's text that were not read, since it was too long), seed and position
// (of its first random number), next (position of the next turn's), interrupted, finish, tokens {cached, read, reply,
// used, size}, seconds {first, decode}, overflow [{first, last, system (its prompt left, too), discarded, kept, evaluated,
// inside, cut, prompt, seconds, times (small ones that it stands for), partly: [{turn, gone: tokens of its reply, all
// without}]}].
#ifndef PALAVER_APP_TRANSCRIPT_H
#define PALAVER_APP_TRANSCRIPT_H

#include "app/record/transcript/tree.h"
#include "engine/talk/conversation.h"
#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// 1: every turn has what the user said and a reply. 2: one of them may be missing.
enum { TRANSCRIPT_FORMAT = 2 };

typedef struct Transcript Transcript;

// Which model the token ids belong to.
typedef struct TranscriptModel {
    const char *name, *path;
    const char *fingerprint;   // of weights' shape and tokenizer: equal ones understand each other's ids
    const char *chat_template; // its name
} TranscriptModel;

typedef struct TranscriptHeader {
    bool script; // a script's or a single question's: nobody has talked in it
    TranscriptModel model;
    uint64_t seed, stream; // below 2^63
} TranscriptHeader;

// Room was made: turns are those of the tree.
typedef struct TranscriptOverflow {
    OverflowEvent event;
    bool system;            // the system prompt was evicted
    TreeEviction partly[2]; // [n_partly] turns evicted in part: at both ends of those that are whole
    int n_partly;
    int64_t times; // small ones in one reply that this stands for, added up; 0 or 1: it is one
} TranscriptOverflow;

// What was answered, and how.
typedef struct TranscriptReply {
    const char *text; // NULL: there is no reply
    size_t size;
    const int32_t *ids; // [n_ids] sampled ids; NULL: only the text counts
    int64_t n_ids, n_evicted;
    int64_t cut_from, cut_to; // bytes of what was said that were left out, since it was too long; 0, 0: none
    bool interrupted;
    uint64_t seed, position; // of its random numbers
    uint64_t next;           // the position at which the conversation's own numbers go on
    ReplyReport report;
    const TranscriptOverflow *overflow; // [n_overflow]
    int n_overflow;
} TranscriptReply;

// What lies at a node of the tree.
typedef struct TranscriptNode {
    ChatRole role;    // who said it: CHAT_USER, or CHAT_SYSTEM between the turns
    const char *text; // NULL: nothing was said before the reply
    size_t size;
    TranscriptReply reply; // of the report only finish and the counts are kept; overflow goes into the tree
} TranscriptNode;

typedef struct TranscriptSetting {
    const char *key, *text; // as config_set() takes them
    bool session;           // set by hand
} TranscriptSetting;

// A new transcript whose log holds only its header.
Status transcript_new(const TranscriptHeader *header, Transcript **transcript, Error *error);

// Reads a log of `size` bytes; `name` stands for the file in messages (NAME:LINE). A last line that is torn
// (without its end, or not JSON) is left out: transcript_log() gives the bytes that were taken. Ids are
// checked to be >= 0, not against a vocabulary. STATUS_FILE: no transcript, or damaged; STATUS_UNSUPPORTED: a
// later format.
Status transcript_parse(const char *name, const char *text, size_t size, Transcript **transcript,
                        Error *error);

// The same line by line (without its end): a blank transcript takes the header first. For a replay.
Status transcript_blank(Transcript **transcript, Error *error);
Status transcript_take_line(Transcript *transcript, const char *line, size_t size, Error *error);

void transcript_free(Transcript *transcript); // NULL is fine

// The log so far: whole lines. Valid until the transcript changes.
const char *transcript_log(const Transcript *transcript, size_t *size);

// ---- the tree; pointers are valid until the transcript changes --------------------------------------------

TranscriptHeader transcript_header(const Transcript *transcript); // with the latest model and seed
uint64_t transcript_position(const Transcript *transcript);       // of the random numbers, where the log ends
const char *transcript_system(const Transcript *transcript);      // "": none
const char *transcript_asked(const Transcript *transcript);       // a question without an answer; NULL: none
const Tree *transcript_tree(const Transcript *transcript);
const TranscriptNode *transcript_node(const Transcript *transcript, int index);
int transcript_n_settings(const Transcript *transcript);
TranscriptSetting transcript_setting(const Transcript *transcript, int index);

// ---- changes: each appends one record ---------------------------------------------------------------------

// A new turn after `parent`, which becomes the head. `why` is one word ("ask", "retry", "edit", "say"). Texts are
// valid UTF-8.
Status transcript_add_turn(Transcript *transcript, int parent, const char *why, const TranscriptNode *turn,
                           Error *error);
// Another reply in place of a node's.
Status transcript_set_reply(Transcript *transcript, int index, const TranscriptReply *reply, Error *error);
// Forgets the sampled ids of a reply, which are damaged: its text counts. In memory only.
void transcript_drop_ids(Transcript *transcript, int index);
Status transcript_set_head(Transcript *transcript, int index, const char *why, Error *error);
// Turns of the way to the head, `tokens` in all, are forgotten.
Status transcript_forget(Transcript *transcript, TreeRange turns, int64_t tokens, Error *error);
// These two append nothing if nothing changes. A system prompt that was evicted on the way to the head changes: it is
// there again.
Status transcript_set_system(Transcript *transcript, const char *text, Error *error);
Status transcript_set_settings(Transcript *transcript, const TranscriptSetting *settings, int n,
                               Error *error);
Status transcript_set_seed(Transcript *transcript, uint64_t seed, uint64_t position, Error *error);
// A question is about to be answered, or (NULL) is taken back.
Status transcript_set_asked(Transcript *transcript, const char *text, size_t size, Error *error);
// Appends nothing where somebody has talked already.
Status transcript_set_talked(Transcript *transcript, Error *error);
Status transcript_set_model(Transcript *transcript, const TranscriptModel *model, Error *error);

#endif
