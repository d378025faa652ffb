#include "tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/blanks.h"
#include "tokenizer/byte_level.h"
#include "kernels/base/array.h"
#include "kernels/base/hash.h"
#include "kernels/base/text/utf8.h"

static uint64_t text_hash(const char *text, size_t size) {
    uint64_t h = hash_bytes(HASH_START, text, size);
    return h ^ h >> 29; // mixed, for the table uses the low bits
}

static size_t table_size_for(int64_t n) {
    size_t size = 64;
    while (size < 2 * (size_t)n) size *= 2;
    return size;
}

static PieceText *table_new(size_t size) {
    PieceText *table = malloc(size * sizeof *table);
    for (size_t i = 0; table && i < size; i++) table[i] = (PieceText){0, 0, -1};
    return table;
}

Status vocabulary_init(Vocabulary *vocabulary, int64_t n, Error *error) {
    *vocabulary = (Vocabulary){0};
    if (n <= 0) return error_set(error, STATUS_FILE, "a vocabulary of %lld pieces", (long long)n);
    Status status = text_append(&vocabulary->chars, "", 1, error); // offset 0: the empty text
    return status ? status : vocabulary_extend(vocabulary, n, error);
}

void vocabulary_free(Vocabulary *vocabulary) {
    free(vocabulary->pieces);
    free(vocabulary->table);
    text_free(&vocabulary->chars);
    *vocabulary = (Vocabulary){0};
}

// The slot of a text: where it is, or the free one where it would go.
static size_t table_slot(const Vocabulary *vocabulary, const char *text, size_t size) {
    size_t mask = vocabulary->table_size - 1, slot = text_hash(text, size) & mask;
    for (; vocabulary->table[slot].id >= 0; slot = (slot + 1) & mask) {
        const PieceText *entry = &vocabulary->table[slot];
        if (entry->size == size && !memcmp(vocabulary->chars.bytes + entry->text, text, size)) break;
    }
    return slot;
}

Status vocabulary_extend(Vocabulary *vocabulary, int64_t n, Error *error) {
    if (n <= vocabulary->n) return STATUS_OK;
    bool room = false;
    PieceText *table = NULL;
    size_t table_size = 0;
    if (n <= INT32_MAX / 4) {
        room = array_reserve(&vocabulary->pieces, sizeof *vocabulary->pieces, (size_t)vocabulary->n,
                             (size_t)(n - vocabulary->n), &vocabulary->capacity);
        table_size = table_size_for(n);
        table = table_new(table_size);
    }
    if (!room || !table) {
        free(table);
        return error_set(error, STATUS_MEMORY, "no memory for a vocabulary of %lld pieces", (long long)n);
    }
    for (int64_t i = vocabulary->n; i < n; i++) vocabulary->pieces[i] = (Piece){.kind = TOKEN_UNUSED};
    Vocabulary old = *vocabulary;
    vocabulary->n = n;
    vocabulary->table = table;
    vocabulary->table_size = table_size;
    for (size_t i = 0; i < old.table_size; i++) {
        const PieceText *entry = &old.table[i];
        if (entry->id >= 0)
            table[table_slot(vocabulary, old.chars.bytes + entry->text, entry->size)] = *entry;
    }
    free(old.table);
    return STATUS_OK;
}

int32_t vocabulary_find(const Vocabulary *vocabulary, const char *text, size_t size) {
    return size == 0 ? -1 : vocabulary->table[table_slot(vocabulary, text, size)].id;
}

// Stores size bytes and a NUL, gives their offset.
static Status chars_add(Vocabulary *vocabulary, const char *text, size_t size, size_t *offset, Error *error) {
    if (size >= UINT32_MAX / 2) return error_set(error, STATUS_FILE, "a piece of %zu bytes", size);
    *offset = vocabulary->chars.size;
    Status status = text_grow(&vocabulary->chars, size + 1, error);
    if (!status) status = text_append(&vocabulary->chars, text, size, error);
    return status ? status : text_append(&vocabulary->chars, "", 1, error);
}

Status vocabulary_set(Vocabulary *vocabulary, int32_t id, const char *text, size_t size, TokenKind kind,
                      Error *error) {
    Piece *piece = &vocabulary->pieces[id];
    piece->kind = kind;
    if (piece->text_size == size && !memcmp(vocabulary_text(vocabulary, id), text, size)) return STATUS_OK;
    size_t offset = 0;
    Status status = chars_add(vocabulary, text, size, &offset, error);
    if (status) return status;
    piece->text = piece->bytes = offset;
    piece->text_size = piece->bytes_size = (uint32_t)size;
    if (size == 0) return STATUS_OK;
    PieceText *entry = &vocabulary->table[table_slot(vocabulary, text, size)];
    if (entry->id >= 0) return STATUS_OK;
    if (vocabulary->n_texts >= vocabulary->table_size / 4 * 3) {
        return error_set(error, STATUS_FILE,
                         "ids are given several texts, again and again: the file is damaged; fetch it again");
    }
    vocabulary->n_texts++;
    *entry = (PieceText){offset, (uint32_t)size, id};
    return STATUS_OK;
}

Status vocabulary_set_bytes(Vocabulary *vocabulary, int32_t id, const char *bytes, size_t size,
                            Error *error) {
    size_t offset = 0;
    Status status = chars_add(vocabulary, bytes, size, &offset, error);
    if (status) return status;
    vocabulary->pieces[id].bytes = offset;
    vocabulary->pieces[id].bytes_size = (uint32_t)size;
    return STATUS_OK;
}

// GPT-2's characters to bytes; false if the text has any other character. `out` has room for n bytes.
static bool byte_level_decode(const char *text, size_t n, char *out, size_t *written) {
    *written = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        int length = utf8_next(text + i, n - i, &code);
        int byte = length > 0 ? byte_level_byte(code) : -1;
        if (byte < 0) return false;
        out[(*written)++] = (char)byte;
        i += (size_t)length;
    }
    return true;
}

// U+2581 to spaces. `out` has room for n bytes.
static size_t spaces_decode(const char *text, size_t n, char *out) {
    size_t written = 0;
    for (size_t i = 0; i < n;) {
        bool space = n - i >= 3 && !memcmp(text + i, "\u2581", 3);
        out[written++] = space ? ' ' : text[i];
        i += space ? 3 : 1;
    }
    return written;
}

// Gives piece `id` the bytes that its kind and spelling stand for; `scratch` is reused.
static Status piece_spell(Vocabulary *vocabulary, int32_t id, bool byte_level, Text *scratch, Error *error) {
    const Piece *piece = &vocabulary->pieces[id];
    size_t size = piece->text_size, written = 0;
    scratch->size = 0;
    Status status = text_grow(scratch, size + 8, error);
    if (status) return status;
    const char *text = vocabulary_text(vocabulary, id);
    if (piece->kind == TOKEN_BYTE) {
        int byte = byte_piece_value(text, size);
        if (byte >= 0) scratch->bytes[written++] = (char)byte;
    } else if (piece->kind == TOKEN_UNKNOWN && !byte_level) {
        memcpy(scratch->bytes, " \u2047 ", written = 5);
    } else if (byte_level && piece->kind == TOKEN_NORMAL) {
        if (!byte_level_decode(text, size, scratch->bytes, &written)) return STATUS_OK;
    } else if (!byte_level && (piece->kind == TOKEN_NORMAL || piece->kind == TOKEN_USER_DEFINED)) {
        written = spaces_decode(text, size, scratch->bytes);
        if (written == size) return STATUS_OK;
    } else {
        return STATUS_OK;
    }
    return vocabulary_set_bytes(vocabulary, id, scratch->bytes, written, error);
}

static Status vocabulary_spell(Vocabulary *vocabulary, bool byte_level, Error *error) {
    Text scratch = {0};
    Status status = STATUS_OK;
    for (int64_t id = 0; id < vocabulary->n && !status; id++) {
        status = piece_spell(vocabulary, (int32_t)id, byte_level, &scratch, error);
    }
    text_free(&scratch);
    return status;
}

Status vocabulary_spell_byte_level(Vocabulary *vocabulary, Error *error) {
    return vocabulary_spell(vocabulary, true, error);
}

Status vocabulary_spell_sentencepiece(Vocabulary *vocabulary, Error *error) {
    return vocabulary_spell(vocabulary, false, error);
}

void vocabulary_mark_end(Vocabulary *vocabulary, int32_t id) {
    if (id >= 0 && id < vocabulary->n) vocabulary->pieces[id].end = true;
}

// The names that end a reply.
static const char *const end_names[] = {
    "</s>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<eos>",
    "<|eot|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<EOT>",
    "<|end_of_sentence|>",
    "<|call|>",
    "<|return|>",
    "<|end_of_turn|>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
};

static bool is_one_of(const char *const *names, size_t n, const char *text, size_t size) {
    for (size_t i = 0; i < n; i++) {
        if (strlen(names[i]) == size && !memcmp(names[i], text, size)) return true;
    }
    return false;
}

bool vocabulary_is_control_name(const char *text, size_t size) {
    static const char *const others[] = {"<s>",     "<bos>",    "<start_of_turn>", "[INST]",  "[/INST]",
                                         "<<SYS>>", "<</SYS>>", "[MASK]",          "[gMASK]", "[sMASK]",
                                         "<sop>",   "<eop>",    "<ENC>",           "<dBLOCK>"};
    static const char bar[] = "\uFF5C"; // DeepSeek's |
    char blanks[BLANKS_MOST];
    if (size > 4 && !memcmp(text, "<|", 2) && !memcmp(text + size - 2, "|>", 2))
        return blanks_read(text, size, blanks) == 0;
    if (size > 8 && text[0] == '<' && !memcmp(text + 1, bar, 3) && !memcmp(text + size - 4, bar, 3) &&
        text[size - 1] == '>') {
        return true;
    }
    return is_one_of(end_names, sizeof end_names / sizeof *end_names, text, size) ||
           is_one_of(others, sizeof others / sizeof *others, text, size);
}

static bool has_control(const Vocabulary *vocabulary, const char *text) {
    int32_t id = vocabulary_find(vocabulary, text, strlen(text));
    return id >= 0 && vocabulary->pieces[id].kind == TOKEN_CONTROL;
}

void vocabulary_mark_named_ends(Vocabulary *vocabulary) {
    for (size_t i = 0; i < sizeof end_names / sizeof *end_names; i++) {
        int32_t id = vocabulary_find(vocabulary, end_names[i], strlen(end_names[i]));
        if (id >= 0 && vocabulary->pieces[id].kind == TOKEN_CONTROL) vocabulary->pieces[id].end = true;
    }
    // Where replies are several messages (tokenizer/chat/channels.h), this ends one of them.
    if (has_control(vocabulary, "<|channel|>") && has_control(vocabulary, "<|message|>") &&
        has_control(vocabulary, "<|return|>") && has_control(vocabulary, "<|end|>"))
        vocabulary->pieces[vocabulary_find(vocabulary, "<|end|>", strlen("<|end|>"))].end = false;
}
