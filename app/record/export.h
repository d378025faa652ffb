// A conversation in the forms that other people and programs read: the branch on which one stands.
#ifndef PALAVER_APP_EXPORT_H
#define PALAVER_APP_EXPORT_H

#include "app/record/transcript/transcript.h"

typedef enum ExportForm {
    EXPORT_MD,    // headings and texts
    EXPORT_JSON,  // {"id", "model", "branch", "messages": [{"role", "content"}]}, indented
    EXPORT_JSONL, // the same on one line, as --jsonl reads it
} ExportForm;
int export_form_find(const char *name); // "md", "json", "jsonl": an ExportForm, or -1

// What the conversation and its model are called, in UTF-8.
typedef struct ExportNames {
    const char *id, *model;
} ExportNames;

// All turns on the way to the head, also those that were evicted. *text [*size] is malloc'ed.
Status export_branch(const Transcript *transcript, ExportNames names, ExportForm form, char **text,
                     size_t *size, Error *error);

#endif
