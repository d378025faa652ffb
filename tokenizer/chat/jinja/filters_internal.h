// The filters' two halves: single values (filters.c) and lists (list_filters.c). Inner header of the room.
#ifndef PALAVER_TOKENIZER_CHAT_JINJA_FILTERS_INTERNAL_H
#define PALAVER_TOKENIZER_CHAT_JINJA_FILTERS_INTERNAL_H

#include "tokenizer/chat/jinja/jinja_internal.h"

const Function *jinja_list_filter(const char *name); // NULL: there is none

#endif
