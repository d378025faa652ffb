// Ctrl-G and /edit: a text in the user's own editor.
#ifndef PALAVER_APP_COMPOSE_H
#define PALAVER_APP_COMPOSE_H

#include "kernels/base/status.h"

// Opens `initial` (may be NULL) in $VISUAL, else $EDITOR, else vi, in a temporary file of mode 600
// under XDG_RUNTIME_DIR or TMPDIR or /tmp, which is gone afterwards; waits for it, with SIGINT ignored
// meanwhile. *result (to free()) is what was saved, without the final newline and control characters; it may be empty.
// STATUS_FILE: the editor could not be started or ended with a failure, or left what is no text, which is then kept
// where the message says; *result is NULL then. With STATUS_OK error's message is empty, or says what was left out.
Status compose_text(const char *initial, char **result, Error *error);

#endif
