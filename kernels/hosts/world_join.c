// Who may join a world: a greeting on each connection, by which both sides prove that they know the key, and compare what
// has to be the same.
#include "kernels/base/digest.h"
#include "kernels/hosts/world_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { NONCE = 32, PROOF = 32, BLOCK = 64, WORDS = 400 };

static const char MAGIC[8] = "palaver";

// What each side says of itself.
typedef struct Greeting {
    char magic[8];
    uint32_t wire, abi, structs; // structs: bytes of what travels as it lies in memory
    int32_t kind, rank, size;
    uint64_t model;
    char version[32];
    uint8_t nonce[NONCE];
} Greeting;

typedef struct Answer {
    Greeting own;
    uint8_t proof[PROOF];
} Answer;

typedef struct Verdict {
    int32_t is_welcome;
    char words[WORDS];
} Verdict;

static bool greet(const World *w, int kind, Greeting *to) {
    *to = (Greeting){.wire = WIRE_VERSION,
                     .abi = OPS_ABI,
                     .structs = sizeof(WireStep) + sizeof(WireKv) * 3 + sizeof(WireDraw) * 5 +
                                sizeof(WireOpen) * 7 + sizeof(WireOpened) * 11 + sizeof(LogitAdjustment) * 13,
                     .kind = kind,
                     .rank = w->options.rank,
                     .size = w->options.size,
                     .model = w->options.model};
    memcpy(to->magic, MAGIC, sizeof MAGIC);
    snprintf(to->version, sizeof to->version, "%s", PALAVER_VERSION);
    return getrandom(to->nonce, NONCE, 0) == NONCE;
}

// ---- the key ----------------------------------------------------------------------------------------------

static void end_digest(Digest *digest, uint8_t bytes[PROOF]) {
    char hex[DIGEST_HEX];
    digest_end(digest, hex);
    for (int i = 0; i < PROOF; i++) {
        unsigned value = 0;
        sscanf(hex + (ptrdiff_t)2 * i, "%2x", &value);
        bytes[i] = (uint8_t)value;
    }
}

// HMAC of who speaks, and of both greetings.
static void prove(const World *w, const char *who, const Greeting *asker, const Greeting *answerer,
                  uint8_t proof[PROOF]) {
    uint8_t key[BLOCK] = {0}, pad[BLOCK];
    Digest digest;
    const size_t length = strlen(w->options.key);
    if (length <= BLOCK) {
        memcpy(key, w->options.key, length);
    } else {
        digest_begin(&digest, DIGEST_SHA256);
        digest_add(&digest, w->options.key, length);
        end_digest(&digest, key);
    }
    for (int i = 0; i < BLOCK; i++) pad[i] = key[i] ^ 0x36;
    digest_begin(&digest, DIGEST_SHA256);
    digest_add(&digest, pad, BLOCK);
    digest_add(&digest, who, strlen(who));
    digest_add(&digest, asker, sizeof *asker);
    digest_add(&digest, answerer, sizeof *answerer);
    end_digest(&digest, proof);
    for (int i = 0; i < BLOCK; i++) pad[i] = key[i] ^ 0x5c;
    digest_begin(&digest, DIGEST_SHA256);
    digest_add(&digest, pad, BLOCK);
    digest_add(&digest, proof, PROOF);
    end_digest(&digest, proof);
}

static bool is_same(const uint8_t a[PROOF], const uint8_t b[PROOF]) {
    unsigned differs = 0;
    for (int i = 0; i < PROOF; i++) differs |= a[i] ^ b[i];
    return differs == 0;
}

// ---- both sides ---------------------------------------------------------------------------------------------

Status join_ask(const World *w, int kind, int socket, Error *error) {
    Greeting own;
    Answer answer;
    Verdict verdict;
    uint8_t proof[PROOF];
    if (!greet(w, kind, &own)) return error_set(error, STATUS_DEVICE, "no random numbers to join with");
    const bool answers =
        socket_write(socket, &own, sizeof own) && socket_read(socket, &answer, sizeof answer);
    if (!answers && (errno == EAGAIN || errno == EWOULDBLOCK))
        return error_set(error, STATUS_DEVICE, "rank 0 at %s takes the connection and says nothing",
                         w->options.address);
    if (!answers)
        return error_set(error, STATUS_DEVICE,
                         "rank 0 at %s has gone, or nobody who is palaver answers there", w->options.address);
    if (memcmp(answer.own.magic, MAGIC, sizeof MAGIC) != 0)
        return error_set(error, STATUS_DEVICE, "nobody who is palaver answers at %s", w->options.address);
    prove(w, "rank 0", &own, &answer.own, proof);
    if (!is_same(proof, answer.proof)) {
        memset(proof, 0, sizeof proof); // tells that this goes by its own will, and nothing of the key
        (void)socket_write(socket, proof, sizeof proof);
        return error_set(error, STATUS_DEVICE,
                         "rank 0 at %s has another key (--join-key), or is not who it should be",
                         w->options.address);
    }
    prove(w, "rank", &own, &answer.own, proof);
    if (!socket_write(socket, proof, sizeof proof) || !socket_read(socket, &verdict, sizeof verdict))
        return error_set(error, STATUS_DEVICE, "rank 0 at %s has gone", w->options.address);
    verdict.words[WORDS - 1] = 0;
    return verdict.is_welcome ? STATUS_OK
                              : error_set(error, STATUS_USAGE, "rank 0 at %s does not want this rank: %s",
                                          w->options.address, verdict.words);
}

// What of it differs that must not.
static bool differs(const World *w, const Greeting *own, const Greeting *its, char words[WORDS]) {
    if (memcmp(its->version, own->version, sizeof own->version) || its->wire != own->wire ||
        its->abi != own->abi || its->structs != own->structs)
        snprintf(words, WORDS, "it is palaver %.31s of another build than %s here", its->version,
                 own->version);
    else if (its->size != own->size || its->rank < 1 || its->rank >= own->size)
        snprintf(words, WORDS, "it is rank %d of %d, of %d here", its->rank, its->size, own->size);
    else if (its->model != own->model)
        snprintf(words, WORDS, "its model is another one");
    else if (its->kind != JOIN_DATA && its->kind != JOIN_PULSE)
        snprintf(words, WORDS, "it wants what palaver has not");
    else if ((its->kind == JOIN_DATA ? w->links[its->rank].data : w->links[its->rank].pulse) >= 0)
        snprintf(words, WORDS, "rank %d is there already", its->rank);
    else
        return false;
    return true;
}

// The greeting of somebody who is palaver.
static bool hear(int socket, const char *name, Greeting *its, Error *error) {
    const bool speaks = socket_read(socket, its, sizeof *its);
    if (speaks && memcmp(its->magic, MAGIC, sizeof MAGIC) == 0) return true;
    error_set(error, STATUS_DEVICE, "a caller from %s was turned away: it %s", name,
              speaks ? "is not palaver" : "said nothing, or has gone");
    return false;
}

bool join_answer(const World *w, int socket, const char *name, int *rank, int *kind, Status *status,
                 Error *error) {
    Greeting its;
    Answer answer = {0};
    Verdict verdict = {0};
    uint8_t proof[PROOF], own[PROOF];
    *status = STATUS_OK;
    if (!hear(socket, name, &its, error)) return false;
    if (!greet(w, 0, &answer.own)) {
        *status = error_set(error, STATUS_DEVICE, "no random numbers to join with");
        return false;
    }
    its.version[sizeof its.version - 1] = 0;
    prove(w, "rank 0", &its, &answer.own, answer.proof);
    const bool proves =
        socket_write(socket, &answer, sizeof answer) && socket_read(socket, proof, sizeof proof);
    prove(w, "rank", &its, &answer.own, own);
    if (!proves || !is_same(own, proof)) {
        error_set(error, STATUS_DEVICE, "rank %d from %s was turned away: %s", its.rank, name,
                  proves ? "it has another key (--join-key)"
                         : "it has ended, or was stopped, before it joined");
        return false;
    }
    verdict.is_welcome = !differs(w, &answer.own, &its, verdict.words);
    const bool heard = socket_write(socket, &verdict, sizeof verdict);
    if (!verdict.is_welcome)
        *status =
            error_set(error, STATUS_USAGE, "rank %d at %s cannot join: %s", its.rank, name, verdict.words);
    if (!heard || !verdict.is_welcome) return false;
    socket_set_patience(socket, 0, 0);
    *rank = its.rank, *kind = its.kind;
    return true;
}
