// The clipboard of the terminal, also at the far end of ssh: ESC ] 52 ; c ; BASE64 BEL.
#include "app/terminal/screen/screen_internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { CLIPBOARD_LIMIT = 74994 }; // bytes whose sequence is at most 100,000 long: what xterm takes

static bool add_base64(Text *out, const unsigned char *from, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bool ok = true;
    for (size_t i = 0; ok && i < n; i += 3) {
        size_t left = n - i;
        uint32_t bits = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                        (left > 2 ? from[i + 2] : 0);
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], left > 1 ? digits[bits >> 6 & 63] : '=',
                        left > 2 ? digits[bits & 63] : '='};
        ok = text_add(out, four, 4);
    }
    return ok;
}

Status screen_clipboard(Screen *screen, const char *text, size_t n, Error *error) {
    Text out = {0};
    if (!screen->traits.notice_terminal || screen->traits.plain)
        return error_set(error, STATUS_USAGE, "the clipboard needs a terminal that takes escape sequences");
    if (n > CLIPBOARD_LIMIT)
        return error_set(error, STATUS_USAGE,
                         "%zu bytes are more than a terminal's clipboard takes (%d); /export", n,
                         CLIPBOARD_LIMIT);
    bool ok = text_add(&out, "\033]52;c;", 7) && add_base64(&out, (const unsigned char *)text, n) &&
              text_add(&out, "\a", 1);
    Status status = ok ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory");
    for (size_t at = 0; !status && at < out.size;) {
        ssize_t written = write(STDERR_FILENO, out.bytes + at, out.size - at);
        if (written > 0)
            at += (size_t)written;
        else if (errno != EINTR)
            status = error_set(error, STATUS_FILE, "the terminal: %s", strerror(errno));
    }
    text_free(&out);
    return status;
}
