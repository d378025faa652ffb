// Messages as JSON has them, in --jsonl's lines and in what /export writes: OpenAI's form of a text.
//
//   {"role": "system|user|assistant", "content": "…"}, the content also as [{"type": "text", "text": "…"}, …]
#ifndef PALAVER_APP_MESSAGE_JSON_H
#define PALAVER_APP_MESSAGE_JSON_H

#include "engine/talk/conversation.h"

#include <jansson.h>

// Every key of the object is one of `names` [n]; STATUS_USAGE names the one that is not, with the nearest, behind
// `where`.
Status message_json_keys(json_t *object, const char *where, const char *const *names, size_t n, Error *error);

// Message `i` of a list, as a view of the JSON, in which a list of parts becomes one text, its parts joined by
// newlines. What a person says holds no zero byte. STATUS_USAGE: "messages[i]: …".
Status message_json_read(json_t *json, size_t i, Message *message, Error *error);

#endif
