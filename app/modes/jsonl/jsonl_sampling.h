// "sampling" of a line of `palaver --jsonl`: keys of the settings' section [sampling], as JSON.
#ifndef PALAVER_APP_JSONL_SAMPLING_H
#define PALAVER_APP_JSONL_SAMPLING_H

#include "app/settings/settings.h"

#include <jansson.h>

// *own becomes a copy of `settings`, malloc'ed, with what `sampling` says; NULL where that is nothing. null is what
// a client writes that says nothing of a key. A number, a word or a switch may also be a string, as it is typed after a
// flag; texts, lists of texts and biases are taken as they are; "json_schema" may be the schema itself. STATUS_USAGE: no
// such key, one key under two names, or no such value.
Status jsonl_sampling_read(json_t *sampling, const Settings *settings, Settings **own, Error *error);

#endif
