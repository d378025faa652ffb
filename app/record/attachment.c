#include "app/record/attachment.h"

#include "kernels/base/path.h"

#include <limits.h>
#include <string.h>

enum { LEAST_FENCE = 3 };

static size_t longest_run(const char *text, size_t size, char c) {
    size_t longest = 0, n = 0;
    for (size_t i = 0; i < size; i++) {
        n = text[i] == c ? n + 1 : 0;
        if (n > longest) longest = n;
    }
    return longest;
}

// Longer than any run of its signs within.
static bool add_fence(Text *to, size_t n) {
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) ok = text_add(to, "`", 1);
    return ok;
}

bool attachment_add(Text *to, const char *path, const char *text, size_t size) {
    const char *name = path_base(path);
    char shown[4 * NAME_MAX + 1]; // spelled as in messages: a turn is UTF-8, and this one line of it
    text_copy_printable(shown, sizeof shown, name, strlen(name));
    size_t fence = longest_run(text, size, '`') + 1;
    if (fence < LEAST_FENCE) fence = LEAST_FENCE;
    bool ends = size && text[size - 1] == '\n';
    return (!to->size || text_add(to, "\n\n", 2)) && text_add(to, shown, strlen(shown)) &&
           text_add(to, ":\n", 2) && add_fence(to, fence) && text_add(to, "\n", 1) &&
           text_add(to, text, size) && (ends || text_add(to, "\n", 1)) && add_fence(to, fence);
}

// Behind the attachment that begins here; NULL: none does.
static const char *skip_one(const char *text) {
    const char *line = strchr(text, '\n');
    if (!line || line == text || line[-1] != ':') return NULL;
    size_t fence = strspn(line + 1, "`");
    if (fence < LEAST_FENCE || line[1 + fence] != '\n') return NULL;
    for (line = strchr(line + 1, '\n'); line; line = strchr(line + 1, '\n')) {
        const char *end = line + 1 + fence;
        if (strspn(line + 1, "`") == fence && (!*end || *end == '\n')) return end;
    }
    return NULL;
}

const char *attachment_skip(const char *question) {
    const char *rest = question, *after;
    while ((after = skip_one(rest)) != NULL) rest = after + strspn(after, "\n");
    return *rest ? rest : question;
}
