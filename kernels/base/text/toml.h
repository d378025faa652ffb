// TOML 1.0 as a plain tree: a C door to toml++, through which no exception passes.
//
// Every value and every key knows its line and column (from 1). Tables keep their pairs in the order of the
// text. Hostile input costs no more than its size: text beyond TOML_MAX_BYTES or nested too deep is refused.
#ifndef PALAVER_BASE_TOML_H
#define PALAVER_BASE_TOML_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TOML_MAX_BYTES = 1 << 20 };

typedef enum TomlType {
    TOML_TABLE,
    TOML_ARRAY,
    TOML_STRING,
    TOML_INTEGER,
    TOML_FLOAT,
    TOML_BOOLEAN,
    TOML_DATE, // any date or time; its value is not kept
} TomlType;

typedef struct TomlNode TomlNode;
struct TomlNode {
    TomlType type;
    bool boolean;
    char *key;   // of a table's child: NUL-terminated (a key that holds a NUL is refused); else NULL
    size_t line; // of the key where there is one, else of the value
    size_t column;
    char *string;  // TOML_STRING: `length` bytes of UTF-8 and a NUL
    size_t length; // TOML_STRING: bytes
    int64_t integer;
    double number;      // TOML_FLOAT, and TOML_INTEGER converted
    TomlNode *children; // TOML_TABLE, TOML_ARRAY: [n_children]
    size_t n_children;
};

// Parses `length` bytes of UTF-8; `name` stands for the file in messages (NAME:LINE:COLUMN: what). On success
// *root is a table that toml_free() releases, on failure NULL.
Status toml_parse(const char *name, const char *text, size_t length, TomlNode **root, Error *error);

// The same for a file.
Status toml_parse_file(const char *path, TomlNode **root, Error *error);

void toml_free(TomlNode *root);

// The child of a table with this key, or NULL.
const TomlNode *toml_child(const TomlNode *table, const char *key);

// "a table", "a string", …: for messages.
const char *toml_type_name(TomlType type);

#ifdef __cplusplus
}
#endif
#endif
