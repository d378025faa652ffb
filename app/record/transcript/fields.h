// What stands in a record of the log: texts, places, replies, evictions. STATUS_FILE names the field that is wrong.
#ifndef PALAVER_APP_FIELDS_H
#define PALAVER_APP_FIELDS_H

#include "app/record/transcript/transcript_internal.h"

Status fields_wrong(Error *error, const char *field, const char *wanted);
// A copy of a string field with its size; `fallback` (may be NULL: required) where it is missing. Only a model says zero
// bytes: without `size` there may be none.
Status fields_text(const json_t *record, const char *field, const char *fallback, char **text, size_t *size,
                   Error *error);
// A count of at least 0; where it is missing, 0.
Status fields_count(const json_t *record, const char *field, int64_t *value, Error *error);
// A count from which random numbers go on: far from where int64_t ends.
Status fields_place(const json_t *record, const char *field, int64_t *value, Error *error);
// "3.1" → index of that node; "0" → TREE_START.
Status fields_node(const Transcript *transcript, const json_t *record, const char *field, int *index,
                   Error *error);
// The answer to a text of `size` bytes.
Status fields_reply(const json_t *record, size_t size, TranscriptReply *reply, Error *error);
void fields_reply_free(TranscriptReply *reply);
// "first" and "last" of a record: turns.
Status fields_range(const json_t *record, TreeRange *range, Error *error);
// What the record's overflow events evicted; *evictions is malloc'ed.
Status fields_evictions(const json_t *record, TreeEviction **evictions, int *n, Error *error);

#endif
