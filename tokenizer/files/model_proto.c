#include "tokenizer/files/model_proto.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Field numbers and values of sentencepiece_model.proto.
enum { MODEL_PIECES = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { TRAINER_MODEL_TYPE = 3, TRAINER_UNK = 40, TRAINER_BOS = 41, TRAINER_EOS = 42, TRAINER_PAD = 43 };
enum { TRAINER_BYTE_FALLBACK = 35 };
enum { NORMALIZER_CHARSMAP = 2, NORMALIZER_DUMMY_PREFIX = 3, NORMALIZER_REMOVE_SPACES = 4 };
enum { TYPE_UNIGRAM = 1, TYPE_BPE = 2 };
enum { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER_DEFINED, PIECE_UNUSED, PIECE_BYTE };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

// ---- reading ----------------------------------------------------------------------------------------------------

typedef struct Wire {
    const unsigned char *at, *end;
} Wire;

typedef struct Field {
    uint32_t number;
    int type;
    uint64_t value; // of a varint, or the bits of a fixed one
    Wire bytes;     // of a length-delimited one
} Field;

static bool wire_varint(Wire *wire, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 70 && wire->at < wire->end; shift += 7) {
        unsigned char byte = *wire->at++;
        if (shift < 64) *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool wire_fixed(Wire *wire, size_t size, uint64_t *value) {
    if ((size_t)(wire->end - wire->at) < size) return false;
    *value = 0;
    for (size_t i = 0; i < size; i++) *value |= (uint64_t)wire->at[i] << 8 * i;
    wire->at += size;
    return true;
}

// The next field; false at the end, and *bad where the bytes are no message.
static bool wire_next(Wire *wire, Field *field, bool *bad) {
    uint64_t key, size;
    if (wire->at >= wire->end) return false;
    *bad = true;
    if (!wire_varint(wire, &key) || key >> 3 == 0 || key >> 3 > 0x1FFFFFFF) return false;
    *field = (Field){.number = (uint32_t)(key >> 3), .type = (int)(key & 7)};
    switch (field->type) {
    case WIRE_VARINT:
        *bad = !wire_varint(wire, &field->value);
        break;
    case WIRE_64:
        *bad = !wire_fixed(wire, 8, &field->value);
        break;
    case WIRE_32:
        *bad = !wire_fixed(wire, 4, &field->value);
        break;
    case WIRE_BYTES:
        if (!wire_varint(wire, &size) || size > (uint64_t)(wire->end - wire->at)) return false;
        field->bytes = (Wire){wire->at, wire->at + size};
        wire->at += size;
        *bad = false;
        break;
    default:
        break; // groups: no such model was ever written with them
    }
    return !*bad;
}

static Status damaged(Error *error, const char *what) {
    return error_set(error, STATUS_FILE, "not a SentencePiece model: %s is damaged; fetch the file again",
                     what);
}

static uint32_t unit_at(const unsigned char *units, uint64_t i) {
    const unsigned char *unit = units + 4 * i;
    return unit[0] | (uint32_t)unit[1] << 8 | (uint32_t)unit[2] << 16 | (uint32_t)unit[3] << 24;
}

// Whether a step from unit i stays inside, whatever byte it is for: bit 31 marks a value, which no step leads from
// (but the walk begins at unit 0 unasked); bit 8 says that the unit at the offset holds a value, which is where in
// the replacements the text begins.
static bool unit_is_safe(const unsigned char *units, uint64_t i, uint64_t n, uint64_t n_text) {
    uint32_t unit = unit_at(units, i);
    if (unit >> 31 && i > 0) return true;
    uint64_t at = i ^ (uint64_t)(unit >> 10) << (unit & 1u << 9 ? 8 : 0); // unit 0 may carry bit 31 along
    if ((at | 0xFF) >= n) return false;
    return !(unit & 1u << 8) || (unit_at(units, at) & 0x7FFFFFFF) < n_text;
}

// The character map is a double array (darts-clone) that the library walks without checks: uint32 size of the
// array in bytes, the array, NUL-terminated replacements.
static Status charsmap_check(Wire map, Error *error) {
    uint64_t size = 0;
    if (!wire_fixed(&map, 4, &size) || size % 4 || size < 1024 || size >= (uint64_t)(map.end - map.at) ||
        map.end[-1] != 0) {
        return damaged(error, "its character map");
    }
    uint64_t n = size / 4, n_text = (uint64_t)(map.end - map.at) - size;
    for (uint64_t i = 0; i < n; i++) {
        if (!unit_is_safe(map.at, i, n, n_text)) return damaged(error, "its character map");
    }
    return STATUS_OK;
}

static Status normalizer_read(Wire wire, ModelProto *model, Error *error) {
    bool bad = false;
    for (Field field; wire_next(&wire, &field, &bad);) {
        if (field.number == NORMALIZER_CHARSMAP && field.type == WIRE_BYTES) {
            model->folds = field.bytes.at < field.bytes.end;
            Status status = model->folds ? charsmap_check(field.bytes, error) : STATUS_OK;
            if (status) return status;
        }
        if (field.type != WIRE_VARINT) continue;
        if (field.number == NORMALIZER_DUMMY_PREFIX) model->add_dummy_prefix = field.value != 0;
        if (field.number == NORMALIZER_REMOVE_SPACES) model->remove_extra_whitespaces = field.value != 0;
    }
    return bad ? damaged(error, "its normalizer") : STATUS_OK;
}

static Status trainer_read(Wire wire, ModelProto *model, uint64_t *type, Error *error) {
    bool bad = false;
    for (Field field; wire_next(&wire, &field, &bad);) {
        if (field.type != WIRE_VARINT) continue;
        int32_t id = (int32_t)(uint32_t)field.value;
        switch (field.number) {
        case TRAINER_MODEL_TYPE:
            *type = field.value;
            break;
        case TRAINER_UNK:
            model->unk = id;
            break;
        case TRAINER_BOS:
            model->bos = id;
            break;
        case TRAINER_EOS:
            model->eos = id;
            break;
        case TRAINER_PAD:
            model->pad = id;
            break;
        default:
            break;
        }
    }
    return bad ? damaged(error, "its trainer's record") : STATUS_OK;
}

static Status piece_read(Wire wire, int32_t id, Vocabulary *vocabulary, Error *error) {
    Wire text = {(const unsigned char *)"", (const unsigned char *)""};
    uint64_t type = PIECE_NORMAL;
    unsigned char *type_byte = NULL;
    float score = 0;
    bool bad = false;
    for (Field field; !bad && wire_next(&wire, &field, &bad);) {
        uint32_t bits = (uint32_t)field.value;
        if (field.number == PIECE_TEXT && field.type == WIRE_BYTES) text = field.bytes;
        if (field.number == PIECE_SCORE && field.type == WIRE_32) memcpy(&score, &bits, sizeof score);
        if (field.number == PIECE_TYPE && field.type == WIRE_VARINT) {
            type = field.value;
            type_byte = (unsigned char *)wire.at - 1; // the value, in the only byte that it needs
            bad |= *type_byte != type;
        }
    }
    static const TokenKind kinds[] = {TOKEN_UNUSED,       TOKEN_NORMAL, TOKEN_UNKNOWN, TOKEN_CONTROL,
                                      TOKEN_USER_DEFINED, TOKEN_UNUSED, TOKEN_BYTE};
    if (bad || type < PIECE_NORMAL || type > PIECE_BYTE || !isfinite(score) || text.at == text.end) {
        return error_set(error, STATUS_FILE,
                         "not a SentencePiece model: piece %d is damaged; fetch the file again", id);
    }
    const char *name = (const char *)text.at;
    size_t name_size = (size_t)(text.end - text.at);
    if (type == PIECE_USER_DEFINED && vocabulary_is_control_name(name, name_size))
        *type_byte = type = PIECE_CONTROL;
    return vocabulary_set(vocabulary, id, name, name_size, kinds[type], error);
}

Status model_proto_read(void *data, size_t size, ModelProto *model, Vocabulary *vocabulary, Error *error) {
    const Wire whole = {data, (const unsigned char *)data + size};
    *vocabulary = (Vocabulary){0};
    *model = (ModelProto){.add_dummy_prefix = true, .remove_extra_whitespaces = true};
    model->bos = 1, model->eos = 2, model->pad = -1; // the library's defaults; unk is 0
    uint64_t type = TYPE_UNIGRAM;
    Status status = STATUS_OK;
    bool bad = false;
    Wire wire = whole;
    for (Field field; !status && wire_next(&wire, &field, &bad);) {
        if (field.type != WIRE_BYTES) continue;
        if (field.number == MODEL_PIECES) model->n_pieces++;
        if (field.number == MODEL_TRAINER) status = trainer_read(field.bytes, model, &type, error);
        if (field.number == MODEL_NORMALIZER) status = normalizer_read(field.bytes, model, error);
    }
    if (status) return status;
    if (bad || model->n_pieces == 0) return damaged(error, "the file");
    if (type != TYPE_UNIGRAM && type != TYPE_BPE) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "a SentencePiece model of type %llu; BPE and unigram can be used",
                         (unsigned long long)type);
    }
    model->unigram = type == TYPE_UNIGRAM;
    status = vocabulary_init(vocabulary, model->n_pieces, error);
    int32_t id = 0;
    wire = whole;
    for (Field field; !status && wire_next(&wire, &field, &bad);) {
        if (field.type == WIRE_BYTES && field.number == MODEL_PIECES) {
            status = piece_read(field.bytes, id++, vocabulary, error);
        }
    }
    int32_t *ids[] = {&model->bos, &model->eos, &model->unk, &model->pad};
    for (int i = 0; i < 4; i++) {
        if (*ids[i] < 0 || *ids[i] >= model->n_pieces) *ids[i] = -1;
    }
    return status;
}

// ---- writing ----------------------------------------------------------------------------------------------------

static Status write_varint(Text *out, uint64_t value, Error *error) {
    char bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) bytes[n++] = (char)(value | 0x80);
    bytes[n++] = (char)value;
    return text_append(out, bytes, n, error);
}

static Status write_number(Text *out, uint32_t field, uint64_t value, Error *error) {
    Status status = write_varint(out, field << 3 | WIRE_VARINT, error);
    return status ? status : write_varint(out, value, error);
}

static Status write_bytes(Text *out, uint32_t field, const void *data, size_t size, Error *error) {
    Status status = write_varint(out, field << 3 | WIRE_BYTES, error);
    if (!status) status = write_varint(out, size, error);
    return status ? status : text_append(out, data, size, error);
}

static Status write_piece(Text *out, Text *message, TokenText text, float score, int32_t type, Error *error) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    char fixed[4] = {(char)bits, (char)(bits >> 8), (char)(bits >> 16), (char)(bits >> 24)};
    message->size = 0;
    Status status = write_bytes(message, PIECE_TEXT, text.text, text.size, error);
    if (!status) status = write_varint(message, PIECE_SCORE << 3 | WIRE_32, error);
    if (!status) status = text_append(message, fixed, sizeof fixed, error);
    if (!status) status = write_number(message, PIECE_TYPE, (uint64_t)type, error);
    return status ? status : write_bytes(out, MODEL_PIECES, message->bytes, message->size, error);
}

// U+0020 to U+2581: GGUF files spell spaces in user-defined pieces as they are, the library matches the other.
static Status escape_spaces(TokenText text, Text *out, Error *error) {
    Status status = STATUS_OK;
    out->size = 0;
    for (size_t i = 0; i < text.size && !status; i++) {
        bool space = text.text[i] == ' ';
        status = text_append(out, space ? "\u2581" : text.text + i, space ? 3 : 1, error);
    }
    return status;
}

typedef struct PieceWriter {
    const TokenizerVocab *vocab;
    Vocabulary seen;
    Text message, spelled;
    int64_t n_bytes; // pieces of type byte
} PieceWriter;

static Status write_vocab_piece(PieceWriter *writer, int32_t id, Text *out, Error *error) {
    const TokenizerVocab *vocab = writer->vocab;
    int32_t type = vocab->types ? vocab->types[id] : PIECE_NORMAL;
    float score = vocab->scores ? vocab->scores[id] : 0;
    TokenText text = vocab->pieces[id];
    char name[32];
    if (type < PIECE_NORMAL || type > PIECE_BYTE) type = PIECE_NORMAL;
    if (!isfinite(score)) return error_set(error, STATUS_FILE, "the score of piece %d is no number", id);
    if (id == vocab->unk || type == PIECE_UNKNOWN) type = id == vocab->unk ? PIECE_UNKNOWN : PIECE_CONTROL;
    if (type == PIECE_USER_DEFINED) {
        Status status = escape_spaces(text, &writer->spelled, error);
        if (status) return status;
        text = (TokenText){writer->spelled.bytes, writer->spelled.size};
    }
    if (text.size == 0 || vocabulary_find(&writer->seen, text.text, text.size) >= 0) {
        text = (TokenText){name, (size_t)snprintf(name, sizeof name, "\uFDD0unusable %d\uFDD0", id)};
        type = type == PIECE_UNKNOWN ? PIECE_UNKNOWN : PIECE_CONTROL;
    }
    if (type == PIECE_BYTE) writer->n_bytes++;
    Status status = vocabulary_set(&writer->seen, id, text.text, text.size, TOKEN_NORMAL, error);
    return status ? status : write_piece(out, &writer->message, text, score, type, error);
}

static Status write_settings(const PieceWriter *writer, Text *out, Error *error) {
    const TokenizerVocab *vocab = writer->vocab;
    bool unigram = !strcmp(vocab->model, "t5");
    Text message = {0};
    Status status = write_number(&message, TRAINER_MODEL_TYPE, unigram ? TYPE_UNIGRAM : TYPE_BPE, error);
    if (!status) status = write_number(&message, TRAINER_BYTE_FALLBACK, writer->n_bytes > 0, error);
    if (!status) status = write_number(&message, TRAINER_UNK, (uint64_t)(int64_t)vocab->unk, error);
    if (!status) status = write_bytes(out, MODEL_TRAINER, message.bytes, message.size, error);
    message.size = 0;
    bool squeeze = vocab->remove_extra_whitespaces < 0 ? unigram : vocab->remove_extra_whitespaces;
    if (!status)
        status = write_number(&message, NORMALIZER_DUMMY_PREFIX, vocab->add_space_prefix != 0, error);
    if (!status) status = write_number(&message, NORMALIZER_REMOVE_SPACES, squeeze, error);
    if (!status && vocab->charsmap_size) {
        status = write_bytes(&message, NORMALIZER_CHARSMAP, vocab->charsmap, vocab->charsmap_size, error);
    }
    if (!status) status = write_bytes(out, MODEL_NORMALIZER, message.bytes, message.size, error);
    text_free(&message);
    return status;
}

Status model_proto_write(const TokenizerVocab *vocab, Text *out, Error *error) {
    PieceWriter writer = {.vocab = vocab};
    Status status = vocabulary_init(&writer.seen, vocab->n_pieces, error);
    for (int64_t id = 0; id < vocab->n_pieces && !status; id++) {
        status = write_vocab_piece(&writer, (int32_t)id, out, error);
    }
    if (!status) status = write_settings(&writer, out, error);
    vocabulary_free(&writer.seen);
    text_free(&writer.message);
    text_free(&writer.spelled);
    return status;
}

Status model_proto_set_dummy_prefix(Text *proto, bool on, Error *error) {
    Text message = {0};
    Status status = write_number(&message, NORMALIZER_DUMMY_PREFIX, on, error);
    if (!status) status = write_bytes(proto, MODEL_NORMALIZER, message.bytes, message.size, error);
    text_free(&message);
    return status;
}

Status model_proto_move(Text *proto, int32_t n, Error *error) {
    Text moved = {0}, message = {0};
    Status status = STATUS_OK;
    for (int32_t i = 0; i < n && !status; i++) {
        char name[32];
        const TokenText text = {name, (size_t)snprintf(name, sizeof name, "<image_%d>", i)};
        status = write_piece(&moved, &message, text, 0, PIECE_CONTROL, error);
    }
    if (!status && n > 0) status = text_append(&moved, proto->bytes, proto->size, error);
    if (!status && n > 0) {
        const Text old = *proto;
        *proto = moved, moved = old;
    }
    text_free(&moved);
    text_free(&message);
    return status;
}
