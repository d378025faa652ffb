// Character references (CommonMark 2.5): numeric ones, and the usual ones among HTML's names.
#ifndef PALAVER_APP_ENTITY_H
#define PALAVER_APP_ENTITY_H

#include <stddef.h>
#include <stdint.h>

// The reference at the beginning of n bytes, which begin with `&`: its length, and what it stands for; 0: it is none.
size_t entity_read(const char *text, size_t n, uint32_t *code);

#endif
