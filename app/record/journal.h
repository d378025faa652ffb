// The file behind a conversation: its transcript's log under the XDG state folder, on disk before the next
// prompt.
//
// conversations/NAME.jsonl, mode 600 in folders of mode 700, is made when the first turn is there. The file
// is always a beginning of the transcript's log; what could not be written (a full disk) is tried again with
// the next record.
//
// After kill -9: what was synced is there (fdatasync before the next prompt); a record that was cut is put aside as
// NAME.torn when the file is opened again; a question whose reply was under way is there as "asked", which chat_turn.c
// wrote before it began, and comes back on the line; of that reply nothing is kept.
#ifndef PALAVER_APP_JOURNAL_H
#define PALAVER_APP_JOURNAL_H

#include "app/record/transcript/transcript.h"
#include "kernels/base/status.h"

#include <stdbool.h>

typedef struct Journal Journal;

// A journal for a new conversation, called `name` (NULL: by the time of its first turn). Nothing touches the disk yet.
Status journal_new(const char *name, Journal **journal, Error *error);

// Opens the journal called `name` (its beginning is enough if it is the only one), NULL: the last one in which somebody
// has talked, else the last of all; empty ones are passed over. Reads its transcript and goes on behind it. A torn end
// is put aside, in NAME.torn; of a damaged one what is whole is read, and goes on in a journal of its own, while the
// file stays as it is. STATUS_FILE: there is none (with the nearest name), nothing of it is whole, or another palaver
// has it open.
Status journal_resume(const char *name, Journal **journal, Transcript **transcript, Error *error);

void journal_close(Journal *journal); // NULL is fine; a file that is still empty goes

// Whether a name means a conversation, or several.
bool journal_is_named(const char *name);

// What is to be told of resuming it, or "".
const char *journal_note(const Journal *journal);

// Writes what the file lacks of the transcript's log, and waits until it is on disk. A transcript with
// neither turns nor a question is not written; a file that was made for it becomes empty. After a failure the file
// ends with its last whole record. A file that another program removed or cut is made whole again.
Status journal_sync(Journal *journal, const Transcript *transcript, Error *error);

// "2026-11-21-071533", or "" before the file is made.
const char *journal_name(const Journal *journal);
// What it is to be called, before the file is made; "": by the time.
const char *journal_wished_name(const Journal *journal);

#endif
