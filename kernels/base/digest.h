// SHA-256, and SHA-1 (FIPS 180-4): to compare files with what their origin says of them.
#ifndef PALAVER_BASE_DIGEST_H
#define PALAVER_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

typedef enum DigestKind { DIGEST_SHA1, DIGEST_SHA256 } DigestKind;

enum { DIGEST_HEX = 65 }; // digits of the longer one, and a NUL

typedef struct Digest {
    DigestKind kind;
    uint32_t state[8];
    uint64_t size; // bytes so far
    uint8_t block[64];
} Digest;

void digest_begin(Digest *digest, DigestKind kind);
void digest_add(Digest *digest, const void *bytes, size_t size);
void digest_end(Digest *digest, char hex[DIGEST_HEX]); // in lower case

#endif
