// How vocabularies spell bytes: GPT-2's printable stand-ins, and SentencePiece's <0x0A>.
#ifndef PALAVER_TOKENIZER_BYTE_LEVEL_H
#define PALAVER_TOKENIZER_BYTE_LEVEL_H

#include <stddef.h>
#include <stdint.h>

// GPT-2 lets the printable bytes of Latin-1 stand for themselves; the other 68 follow from U+0100 on, in order.
static inline uint32_t byte_level_char(unsigned char byte) {
    if (byte <= 0x20) return 0x100u + byte;
    if (byte >= 0x7F && byte <= 0xA0) return 0x100u + 0x21 + (byte - 0x7Fu);
    if (byte == 0xAD) return 0x100u + 0x21 + 0x22;
    return byte;
}

// The byte that a character stands for, or -1.
static inline int byte_level_byte(uint32_t code) {
    if (code >= 0x100 && code <= 0x120) return (int)code - 0x100;
    if (code >= 0x121 && code <= 0x142) return (int)code - 0x121 + 0x7F;
    if (code == 0x143) return 0xAD;
    return code < 0x100 && byte_level_char((unsigned char)code) == code ? (int)code : -1;
}

// The value of a piece like <0x0A>, or -1.
static inline int byte_piece_value(const char *text, size_t size) {
    if (size != 6 || text[0] != '<' || text[1] != '0' || text[2] != 'x' || text[5] != '>') return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

#endif
