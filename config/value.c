// One setting's value. Everything typed becomes a TOML node first, so that a file, a flag, the environment
// and /set share one set of checks.
#include "config/value.h"

#include "kernels/base/text/quote.h"
#include "kernels/base/text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_STRINGS = 32, MAX_STRING = 256, MAX_BIASES = 1024 };

// ---- errors -----------------------------------------------------------------------------------------------

// What was given, short and printable, for messages.
static void describe_node(const TomlNode *node, char *buffer, size_t size) {
    if (node->type == TOML_STRING) {
        snprintf(buffer, size, "\"%s\"", quote_bytes(node->string, node->length).text);
        for (char *c = buffer; *c; c++)
            if ((unsigned char)*c < ' ' || *c == 127) *c = ' ';
    } else if (node->type == TOML_INTEGER) {
        snprintf(buffer, size, "%lld", (long long)node->integer);
    } else if (node->type == TOML_FLOAT) {
        // 1e3 is no whole number in TOML: what says so must not look like one.
        const bool looks_whole = fabs(node->number) < 1e6 && node->number == floor(node->number);
        snprintf(buffer, size, looks_whole ? "%.1f" : "%g", node->number);
    } else {
        snprintf(buffer, size, "%s",
                 node->type == TOML_BOOLEAN ? node->boolean ? "true" : "false" : toml_type_name(node->type));
    }
}

static Status not_allowed(const ConfigKey *key, const TomlNode *node, Error *error) {
    char given[QUOTE_ROOM + 2], allowed[160];
    describe_node(node, given, sizeof given);
    if (node->type == TOML_STRING && memchr(node->string, 0, node->length))
        return error_set(error, STATUS_USAGE, "%s.%s = %s: no text may hold a zero byte", key->section,
                         key->name, given);
    config_key_allowed(key, allowed, sizeof allowed);
    return error_set(error, STATUS_USAGE, "%s.%s = %s: allowed is %s", key->section, key->name, given,
                     allowed);
}

Status value_no_memory(const ConfigKey *key, Error *error) {
    return error_set(error, STATUS_MEMORY, "%s.%s: not enough memory to keep it", key->section, key->name);
}

// ---- from a node -------------------------------------------------------------------------------------

static bool is_number(const TomlNode *node) {
    return node->type == TOML_INTEGER || node->type == TOML_FLOAT;
}
// A NUL would cut the text short wherever it is used.
static bool is_text(const TomlNode *node) {
    return node->type == TOML_STRING && !memchr(node->string, 0, node->length) &&
           node->length <= CONFIG_MOST_TEXT;
}
static bool in_range(const ConfigKey *key, double x) {
    return x >= key->min && x <= key->max;
}
static bool is_word(const TomlNode *node, const char *word) {
    return is_text(node) && !strcasecmp(node->string, word);
}

// The words that people write for a switch; -1 when it is none.
static int switch_state(const TomlNode *node) {
    static const char *const on[] = {"true", "on", "yes", "1"}, *const off[] = {"false", "off", "no", "0"};
    if (node->type == TOML_BOOLEAN) return node->boolean;
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        if (is_word(node, on[i])) return 1;
        if (is_word(node, off[i])) return 0;
    }
    return -1;
}

static Status choice_from_node(const ConfigKey *key, const TomlNode *node, ConfigValue *value, Error *error) {
    for (int i = 0; key->words[i]; i++)
        if (is_word(node, key->words[i])) {
            value->choice = i;
            return STATUS_OK;
        }
    return not_allowed(key, node, error);
}

static Status integer_from_node(const ConfigKey *key, const TomlNode *node, ConfigValue *value,
                                Error *error) {
    if (node->type == TOML_INTEGER && in_range(key, node->number))
        value->integer = node->integer;
    else if (key->words && is_word(node, key->words[0]))
        value->integer = key->word_value;
    else
        return not_allowed(key, node, error);
    return STATUS_OK;
}

static Status number_from_node(const ConfigKey *key, const TomlNode *node, ConfigValue *value, Error *error) {
    bool good = is_number(node) && in_range(key, node->number);
    if (good && key->type == CONFIG_AMOUNT) // 1.0 is refused: it might mean all or one
        good = node->number > 0 && (node->number < 1 ? true : node->type == TOML_INTEGER);
    if (!good) return not_allowed(key, node, error);
    value->number = node->number;
    return STATUS_OK;
}

static Status strings_from_node(const ConfigKey *key, const TomlNode *node, ConfigValue *value,
                                Error *error) {
    bool single = node->type == TOML_STRING;
    const TomlNode *items = single ? node : node->children;
    size_t count = single ? 1 : node->n_children;
    if (!single && node->type != TOML_ARRAY) return not_allowed(key, node, error);
    if (count > MAX_STRINGS)
        return error_set(error, STATUS_USAGE, "%s.%s: more than %d texts", key->section, key->name,
                         MAX_STRINGS);
    for (size_t i = 0; i < count; i++)
        if (!is_text(&items[i]) || !items[i].length || items[i].length > MAX_STRING)
            return not_allowed(key, &items[i], error);
    value->strings = (ConfigStrings){calloc(count ? count : 1, sizeof(char *)), 0};
    if (!value->strings.items) return value_no_memory(key, error);
    for (size_t i = 0; i < count; i++) {
        value->strings.items[i] = strdup(items[i].string);
        value->strings.count++;
        if (!value->strings.items[i]) {
            value_free(key, value);
            return value_no_memory(key, error);
        }
    }
    return STATUS_OK;
}

static Status biases_from_node(const ConfigKey *key, const TomlNode *node, ConfigValue *value, Error *error) {
    if (node->type != TOML_TABLE) return not_allowed(key, node, error);
    if (node->n_children > MAX_BIASES)
        return error_set(error, STATUS_USAGE, "%s.%s: more than %d biases", key->section, key->name,
                         MAX_BIASES);
    for (size_t i = 0; i < node->n_children; i++) {
        const TomlNode *bias = &node->children[i];
        if (!*bias->key || strlen(bias->key) > MAX_STRING || !is_number(bias) || !in_range(key, bias->number))
            return not_allowed(key, bias, error);
    }
    value->biases = (ConfigBiases){calloc(node->n_children ? node->n_children : 1, sizeof(ConfigBias)), 0};
    if (!value->biases.items) return value_no_memory(key, error);
    for (size_t i = 0; i < node->n_children; i++) {
        value->biases.items[i] = (ConfigBias){strdup(node->children[i].key), node->children[i].number};
        value->biases.count++;
        if (!value->biases.items[i].token) {
            value_free(key, value);
            return value_no_memory(key, error);
        }
    }
    return STATUS_OK;
}

Status value_from_node(const ConfigKey *key, const TomlNode *node, ConfigValue *value, Error *error) {
    *value = (ConfigValue){0};
    switch (key->type) {
    case CONFIG_BOOL:
        value->boolean = switch_state(node) == 1;
        return switch_state(node) < 0 ? not_allowed(key, node, error) : STATUS_OK;
    case CONFIG_INTEGER:
        return integer_from_node(key, node, value, error);
    case CONFIG_NUMBER:
    case CONFIG_AMOUNT:
        return number_from_node(key, node, value, error);
    case CONFIG_CHOICE:
        return choice_from_node(key, node, value, error);
    case CONFIG_TEXT:
        if (!is_text(node) || (key->accepts && !key->accepts(node->string)))
            return not_allowed(key, node, error);
        value->text = strdup(node->string);
        return value->text ? STATUS_OK : value_no_memory(key, error);
    case CONFIG_STRINGS:
        return strings_from_node(key, node, value, error);
    case CONFIG_BIASES:
        return biases_from_node(key, node, value, error);
    }
    return STATUS_UNSUPPORTED;
}

// ---- from text ---------------------------------------------------------------------------------------

// The value of the one-line TOML document `x = TEXT`, with brackets put around it (or ""); NULL when it is none.
static TomlNode *parse_value(const char *open, const char *text, const char *close) {
    char *line;
    if (strpbrk(text, "\r\n") || asprintf(&line, "x = %s%s%s", open, text, close) < 0) return NULL;
    TomlNode *root;
    Status status = toml_parse("", line, strlen(line), &root, NULL);
    free(line);
    if (!status && root->n_children == 1) return root;
    toml_free(root);
    return NULL;
}

static TomlNode text_node(char *text) {
    return (TomlNode){.type = TOML_STRING, .string = text, .length = strlen(text)};
}

// a,b,c without quotes: splits `text` in place; parts behind the first `most` are left out.
static size_t split(char *text, char **parts, size_t most) {
    size_t count = 0;
    while (text && *text && count < most) parts[count++] = strsep(&text, ",");
    return count;
}

static Status strings_from_words(const ConfigKey *key, char *text, ConfigValue *value, Error *error) {
    char *parts[MAX_STRINGS + 1];
    TomlNode items[MAX_STRINGS + 1];
    size_t count = split(text, parts, MAX_STRINGS + 1);
    for (size_t i = 0; i < count; i++) items[i] = text_node(parts[i]);
    TomlNode list = {.type = TOML_ARRAY, .children = items, .n_children = count};
    return value_from_node(key, &list, value, error);
}

// token=bias,token=bias: the last = of each part counts, for pieces that hold one. One more than allowed is split off,
// too, for value_from_node() to see.
static Status biases_from_words(const ConfigKey *key, char *text, ConfigValue *value, Error *error) {
    char *parts[MAX_BIASES + 1];
    TomlNode items[MAX_BIASES + 1];
    size_t count = split(text, parts, MAX_BIASES + 1);
    for (size_t i = 0; i < count; i++) {
        char *equals = strrchr(parts[i], '='), *end = equals;
        TomlNode whole = text_node(parts[i]);
        double bias = equals ? strtod(equals + 1, &end) : 0;
        if (!equals || end == equals + 1 || *end) return not_allowed(key, &whole, error);
        *equals = 0;
        items[i] = (TomlNode){.type = TOML_FLOAT, .key = parts[i], .number = bias};
    }
    TomlNode table = {.type = TOML_TABLE, .children = items, .n_children = count};
    return value_from_node(key, &table, value, error);
}

// Text that is not a TOML value of the right kind stands for itself: a word, a path, a list without brackets.
static Status value_from_words(const ConfigKey *key, const char *text, ConfigValue *value, Error *error) {
    char *copy = strdup(text);
    if (!copy) return value_no_memory(key, error);
    bool word = key->type != CONFIG_TEXT && key->type != CONFIG_STRINGS && key->type != CONFIG_BIASES;
    for (size_t end = strlen(copy); word && end && strchr(" \t", copy[end - 1]);) copy[--end] = 0;
    TomlNode node = text_node(copy);
    Status status = key->type == CONFIG_STRINGS  ? strings_from_words(key, copy, value, error)
                    : key->type == CONFIG_BIASES ? biases_from_words(key, copy, value, error)
                                                 : value_from_node(key, &node, value, error);
    free(copy);
    return status;
}

// Whether one of the words of a list has a bracket without its other: the list is not closed, or lacks quotation marks.
static bool has_lone_bracket(const char *text) {
    for (int open = 0;; text++) {
        open += (*text == '[') - (*text == ']');
        if ((!*text || *text == ',') && open) return true;
        if (!*text) return false;
    }
}

// Whether text begins as a list of quoted texts, or as a table of them, where that is wanted: such a one that is no value
// has a slip in it, and is nobody's word. [INST] is one, and so is [ alone.
static bool begins_as_value(const ConfigKey *key, const char *text) {
    const bool open =
        (key->type == CONFIG_STRINGS && *text == '[') || (key->type == CONFIG_BIASES && *text == '{');
    if (!open) return false;
    const char *first = text + 1 + strspn(text + 1, " \t");
    return *first == '"' || *first == '\'' || (*text == '[' && text[1] && has_lone_bracket(text));
}

Status value_from_text(const ConfigKey *key, const char *text, ConfigValue *value, Error *error) {
    size_t size = strlen(text);
    if (utf8_valid_run(text, size) != size)
        return error_set(error, STATUS_USAGE, "%s.%s: the text is not valid UTF-8", key->section, key->name);
    const bool numeric =
        key->type == CONFIG_INTEGER || key->type == CONFIG_NUMBER || key->type == CONFIG_AMOUNT;
    const bool words = key->type == CONFIG_TEXT || key->type == CONFIG_STRINGS ||
                       key->type == CONFIG_BIASES; // blanks count in them
    const char *all = text;
    text += strspn(text, " \t");
    // A list or a table is what it says where a text is wanted: a pattern, a schema.
    if (!strchr(numeric ? "\"'+-.0123456789" : key->type == CONFIG_TEXT ? "\"'" : "\"'[{", *text))
        return value_from_words(key, words ? all : text, value, error);
    char padded[64]; // .5, as people write it, is not TOML
    if (*text == '.' && strlen(text) < sizeof padded - 1) {
        snprintf(padded, sizeof padded, "0%s", text);
        text = padded;
    }
    TomlNode *root = parse_value("", text, "");
    if (!root && begins_as_value(key, text))
        return error_set(error, STATUS_USAGE, "%s.%s = %s: neither closed nor a value of TOML; %s",
                         key->section, key->name, quote(text).text,
                         key->type == CONFIG_BIASES ? "write {\"a\" = 1, \"b\" = -1}"
                                                    : "write [\"a\", \"b\"]");
    if (!root && key->type == CONFIG_STRINGS) root = parse_value("[", text, "]"); // "a", "b"
    if (!root && key->type == CONFIG_BIASES) root = parse_value("{", text, "}");  // "a" = 1
    if (!root) return value_from_words(key, words ? all : text, value, error);
    Status status = value_from_node(key, &root->children[0], value, error);
    toml_free(root);
    return status;
}

// ---- copies ------------------------------------------------------------------------------------------

Status value_copy(const ConfigKey *key, const ConfigValue *from, ConfigValue *copy, Error *error) {
    *copy = *from;
    bool whole = true;
    if (key->type == CONFIG_TEXT) {
        copy->text = strdup(from->text);
        whole = copy->text != NULL;
    } else if (key->type == CONFIG_STRINGS) {
        size_t count = from->strings.count;
        copy->strings = (ConfigStrings){calloc(count ? count : 1, sizeof(char *)), 0};
        whole = copy->strings.items != NULL;
        for (size_t i = 0; whole && i < count; i++)
            whole = (copy->strings.items[copy->strings.count++] = strdup(from->strings.items[i])) != NULL;
    } else if (key->type == CONFIG_BIASES) {
        size_t count = from->biases.count;
        copy->biases = (ConfigBiases){calloc(count ? count : 1, sizeof(ConfigBias)), 0};
        whole = copy->biases.items != NULL;
        for (size_t i = 0; whole && i < count; i++) {
            ConfigBias *bias = &copy->biases.items[copy->biases.count++];
            *bias = (ConfigBias){strdup(from->biases.items[i].token), from->biases.items[i].bias};
            whole = bias->token != NULL;
        }
    }
    if (whole) return STATUS_OK;
    value_free(key, copy);
    return value_no_memory(key, error);
}

void value_free(const ConfigKey *key, ConfigValue *value) {
    if (key->type == CONFIG_TEXT) {
        free(value->text);
    } else if (key->type == CONFIG_STRINGS) {
        for (size_t i = 0; i < value->strings.count; i++) free(value->strings.items[i]);
        free(value->strings.items);
    } else if (key->type == CONFIG_BIASES) {
        for (size_t i = 0; i < value->biases.count; i++) free(value->biases.items[i].token);
        free(value->biases.items);
    }
    *value = (ConfigValue){0};
}

// ---- in the fields -----------------------------------------------------------------------------------

static int64_t whole_number(const ConfigKey *key, const ConfigValue *value) {
    if (key->type == CONFIG_CHOICE) return key->values ? key->values[value->choice] : value->choice;
    return key->type == CONFIG_BOOL ? value->boolean : value->integer;
}

void value_store(const ConfigKey *key, const ConfigValue *value, void *settings) {
    void *field = (char *)settings + key->offset;
    switch (key->field) {
    case CONFIG_FIELD_BOOL:
        *(bool *)field = whole_number(key, value) != 0;
        break;
    case CONFIG_FIELD_INT:
        *(int *)field = (int)whole_number(key, value);
        break;
    case CONFIG_FIELD_INT64:
        *(int64_t *)field = whole_number(key, value);
        break;
    case CONFIG_FIELD_FLOAT:
        *(float *)field = (float)value->number;
        break;
    case CONFIG_FIELD_DOUBLE:
        *(double *)field = value->number;
        break;
    case CONFIG_FIELD_TEXT:
        *(char **)field = value->text;
        break;
    case CONFIG_FIELD_STRINGS:
        *(ConfigStrings *)field = value->strings;
        break;
    case CONFIG_FIELD_BIASES:
        *(ConfigBiases *)field = value->biases;
        break;
    }
}
