// Values as TOML text.
#include "config/config_internal.h"

#include "kernels/base/text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT 1e15 // whole numbers below it are what they look like

// A buffer that is written like snprintf: what does not fit is counted.
typedef struct Writer {
    char *buffer;
    size_t size;
    size_t length;
} Writer;

static void put(Writer *writer, const char *text) {
    for (; *text; text++) {
        if (writer->length + 1 < writer->size) writer->buffer[writer->length] = *text;
        writer->length++;
    }
}

static void put_string(Writer *writer, const char *text) {
    put(writer, "\"");
    size_t left = strlen(text);
    for (int n; left; text += n, left -= (size_t)n) {
        uint32_t code;
        n = abs(utf8_next(text, left, &code));
        if (!n) n = (int)left; // cut: as it is
        char escape[12];
        snprintf(escape, sizeof escape, "%.*s", n, text);
        if (code == '"' || code == '\\')
            snprintf(escape, sizeof escape, "\\%c", (char)code);
        else if (code == '\n')
            snprintf(escape, sizeof escape, "\\n");
        else if (code == '\t')
            snprintf(escape, sizeof escape, "\\t");
        else if (utf8_is_obeyed(code))
            snprintf(escape, sizeof escape, "\\u%04X", (unsigned)code);
        put(writer, escape);
    }
    put(writer, "\"");
}

// The shortest text that reads back to the same number, always with a point or an exponent.
static void put_number(Writer *writer, double x) {
    char text[40];
    if (x == floor(x) && fabs(x) < EXACT) { // 100.0, not 1e+02
        snprintf(text, sizeof text, "%.1f", x);
        put(writer, text);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    put(writer, text);
    if (!strpbrk(text, ".en")) put(writer, ".0"); // n: nan, inf
}

static void put_integer(Writer *writer, int64_t x) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)x);
    put(writer, text);
}

static void put_biases(Writer *writer, const ConfigBiases *biases) {
    put(writer, "{");
    for (size_t i = 0; i < biases->count; i++) {
        if (i) put(writer, ", ");
        put_string(writer, biases->items[i].token);
        put(writer, " = ");
        double bias = biases->items[i].bias;
        if (bias == floor(bias) && fabs(bias) < EXACT)
            put_integer(writer, (int64_t)bias);
        else
            put_number(writer, bias);
    }
    put(writer, "}");
}

static void put_strings(Writer *writer, const ConfigStrings *strings) {
    put(writer, "[");
    for (size_t i = 0; i < strings->count; i++) {
        if (i) put(writer, ", ");
        put_string(writer, strings->items[i]);
    }
    put(writer, "]");
}

static int print_value(const ConfigKey *key, const ConfigValue *value, char *buffer, size_t size) {
    Writer writer = {buffer, size, 0};
    switch (key->type) {
    case CONFIG_BOOL:
        put(&writer, value->boolean ? "true" : "false");
        break;
    case CONFIG_INTEGER:
        if (key->words && value->integer == key->word_value)
            put_string(&writer, key->words[0]);
        else
            put_integer(&writer, value->integer);
        break;
    case CONFIG_AMOUNT:
        if (value->number >= 1)
            put_integer(&writer, (int64_t)value->number);
        else
            put_number(&writer, value->number);
        break;
    case CONFIG_NUMBER:
        put_number(&writer, value->number);
        break;
    case CONFIG_CHOICE:
        put_string(&writer, key->words[value->choice]);
        break;
    case CONFIG_TEXT:
        put_string(&writer, value->text);
        break;
    case CONFIG_STRINGS:
        put_strings(&writer, &value->strings);
        break;
    case CONFIG_BIASES:
        put_biases(&writer, &value->biases);
        break;
    }
    if (size) buffer[writer.length < size ? writer.length : size - 1] = 0;
    return (int)writer.length;
}

int config_print_value(const Config *config, const ConfigKey *key, char *buffer, size_t size) {
    return print_value(key, &layers_effective(config->layers, key)->value, buffer, size);
}

char *config_value_text(const Config *config, const ConfigKey *key) {
    const size_t size = (size_t)config_print_value(config, key, NULL, 0) + 1;
    char *text = malloc(size);
    if (text) config_print_value(config, key, text, size);
    return text;
}
