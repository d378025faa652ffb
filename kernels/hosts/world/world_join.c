// Who may join a world: a greeting on each connection, by which both sides prove that they know the key, and compare what
// has to be the same.
#include "kernels/base/clock.h"
#include "kernels/base/digest.h"
#include "kernels/hosts/world/world_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

enum { BLOCK = 64, WORDS = 400 };

static const char MAGIC[8] = "palaver";

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
                     .size = w->options.size};
    for (int i = 0; i < WORLD_FACTS; i++) to->facts[i] = w->options.model[i].hash;
    memcpy(to->magic, MAGIC, sizeof MAGIC);
    snprintf(to->version, sizeof to->version, "%s", PALAVER_VERSION);
    return getrandom(to->nonce, JOIN_NONCE, 0) == JOIN_NONCE;
}

// ---- the key ----------------------------------------------------------------------------------------------

static void end_digest(Digest *digest, uint8_t bytes[JOIN_PROOF]) {
    char hex[DIGEST_HEX];
    digest_end(digest, hex);
    for (int i = 0; i < JOIN_PROOF; i++) {
        unsigned value = 0;
        sscanf(hex + (ptrdiff_t)2 * i, "%2x", &value);
        bytes[i] = (uint8_t)value;
    }
}

// HMAC of who speaks, and of both greetings.
static void prove(const World *w, const char *who, const Greeting *asker, const Greeting *answerer,
                  uint8_t proof[JOIN_PROOF]) {
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
    digest_add(&digest, proof, JOIN_PROOF);
    end_digest(&digest, proof);
}

static bool is_same(const uint8_t a[JOIN_PROOF], const uint8_t b[JOIN_PROOF]) {
    unsigned differs = 0;
    for (int i = 0; i < JOIN_PROOF; i++) differs |= a[i] ^ b[i];
    return differs == 0;
}

// ---- both sides ---------------------------------------------------------------------------------------------

Status join_ask(const World *w, int kind, int socket, Error *error) {
    Greeting own;
    JoinAnswer answer;
    Verdict verdict;
    uint8_t proof[JOIN_PROOF];
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

// ---- rank 0 -------------------------------------------------------------------------------------------------

// What of it differs that must not.
static bool differs(const World *w, const Greeting *own, const Greeting *its, char words[WORDS]) {
    int fact = 0;
    while (fact < WORLD_FACTS && its->facts[fact] == own->facts[fact]) fact++;
    if (memcmp(its->version, own->version, sizeof own->version) || its->wire != own->wire ||
        its->abi != own->abi || its->structs != own->structs)
        snprintf(words, WORDS, "it is palaver %.31s of another build than %s here", its->version,
                 own->version);
    else if (its->size != own->size || its->rank < 1 || its->rank >= own->size)
        snprintf(words, WORDS, "it is rank %d of %d, of %d here", its->rank, its->size, own->size);
    else if (fact < WORLD_FACTS)
        snprintf(words, WORDS, "its model is another one than here: %s differ",
                 w->options.model[fact].what ? w->options.model[fact].what : "its files");
    else if (its->kind != JOIN_DATA && its->kind != JOIN_PULSE)
        snprintf(words, WORDS, "it wants what palaver has not");
    else
        return false;
    return true;
}

// Its place is taken: by a link, or by one that has come by half.
static bool is_there(const World *w, const Greeting *its, char words[WORDS]) {
    const Link *link = &w->links[its->rank];
    if ((its->kind == JOIN_DATA ? link->data : link->pulse) < 0) return false;
    snprintf(words, WORDS, "rank %d is there already, at %s: each --rank is for one process", its->rank,
             link->name);
    return true;
}

// Reads on until n bytes are there. JOIN_IN: they are.
static JoinResult read_on(Caller *c, void *bytes, size_t n) {
    while (c->n < n) {
        const ssize_t got = recv(c->socket, (char *)bytes + c->n, n - c->n, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return JOIN_WAITS;
        if (got <= 0) return JOIN_AWAY;
        c->n += (size_t)got;
    }
    c->n = 0;
    return JOIN_IN;
}

// What a caller that has not greeted is turned away for.
static JoinResult refuse_stranger(const Caller *c, const char *why, Error *error) {
    error_set(error, STATUS_DEVICE, "a caller from %s was turned away: it %s", c->name, why);
    return JOIN_AWAY;
}
static JoinResult refuse_unproven(const Caller *c, const char *why, Error *error) {
    error_set(error, STATUS_DEVICE, "rank %d from %s was turned away: it %s", c->its.rank, c->name, why);
    return JOIN_AWAY;
}

static bool is_late(const Caller *c) {
    return clock_seconds() - c->since > LOBBY_SECONDS;
}

// Its greeting, once it is whole, is answered; a stranger is known by its first bytes.
static JoinResult take_greeting(const World *w, Caller *c, Error *error) {
    const JoinResult result = read_on(c, &c->its, sizeof c->its);
    const size_t n = result == JOIN_IN ? sizeof MAGIC : c->n < sizeof MAGIC ? c->n : sizeof MAGIC;
    if (memcmp(c->its.magic, MAGIC, n) != 0) return refuse_stranger(c, "is not palaver", error);
    if (result == JOIN_AWAY) return refuse_stranger(c, "has gone before it said who it is", error);
    if (result == JOIN_WAITS)
        return is_late(c) ? refuse_stranger(c, "did not say who it is", error) : JOIN_WAITS;
    c->its.version[sizeof c->its.version - 1] = 0;
    c->greeted = true;
    if (!greet(w, 0, &c->answer.own))
        return refuse_unproven(c, "came when no random numbers were left", error);
    prove(w, "rank 0", &c->its, &c->answer.own, c->answer.proof);
    return socket_write(c->socket, &c->answer, sizeof c->answer)
               ? JOIN_IN
               : refuse_unproven(c, "has ended before it joined", error);
}

JoinResult join_go_on(const World *w, Caller *c, Error *error) {
    Verdict verdict = {0};
    uint8_t own[JOIN_PROOF];
    JoinResult result = c->greeted ? JOIN_IN : take_greeting(w, c, error);
    if (result != JOIN_IN) return result;
    result = read_on(c, c->proof, sizeof c->proof);
    if (result == JOIN_WAITS)
        return is_late(c) ? refuse_unproven(c, "was stopped before it joined", error) : JOIN_WAITS;
    if (result == JOIN_AWAY) return refuse_unproven(c, "has ended before it joined", error);
    prove(w, "rank", &c->its, &c->answer.own, own);
    if (!is_same(own, c->proof)) return refuse_unproven(c, "has another key (--join-key)", error);
    if (differs(w, &c->answer.own, &c->its, verdict.words))
        result = JOIN_DIFFERS;
    else if (is_there(w, &c->its, verdict.words))
        result = JOIN_TWICE;
    verdict.is_welcome = result == JOIN_IN;
    const bool heard = socket_write(c->socket, &verdict, sizeof verdict);
    if (result == JOIN_TWICE)
        error_set(error, STATUS_USAGE, "rank %d from %s was turned away: %s", c->its.rank, c->name,
                  verdict.words);
    else if (result == JOIN_DIFFERS)
        error_set(error, STATUS_USAGE, "rank %d at %s cannot join: %s", c->its.rank, c->name, verdict.words);
    else if (!heard)
        return refuse_unproven(c, "has ended before it joined", error);
    return result;
}
