// Classes of characters, by Unicode's data.
#ifndef PALAVER_TOKENIZER_CHARACTER_H
#define PALAVER_TOKENIZER_CHARACTER_H

#include <stdbool.h>
#include <stdint.h>

bool character_is_space(uint32_t code); // White_Space
bool character_is_word(uint32_t code);  // letters, marks, decimal digits, letter numbers, connectors: \w

#endif
