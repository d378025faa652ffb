// Files in a question: each has its name and a fence round its text, so that the model, and whoever looks for the
// question itself, can tell where it ends.
//
//     notes.txt:
//     ```
//     its text
//     ```
//
//     the question
#ifndef PALAVER_APP_ATTACHMENT_H
#define PALAVER_APP_ATTACHMENT_H

#include "kernels/base/text/text.h"

// Adds a file's text [size] under its name. False: no memory.
bool attachment_add(Text *to, const char *path, const char *text, size_t size);
// What stands behind all attachments at the beginning of a question: the question; all of it, if nothing does.
const char *attachment_skip(const char *question);

#endif
