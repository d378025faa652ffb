// A long text, window by window.
#include "app/terminal/screen/screen_internal.h"
#include "app/terminal/tty.h"

#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"

bool screen_has_reader(const Screen *screen) {
    const ScreenTraits *traits = &screen->traits;
    return traits->input_terminal && traits->notice_terminal && !traits->plain && tty_can_ask();
}

// One that takes no more than a row, for no more is wiped.
static const char *question_for(int width) {
    static const char whole[] = "[Space: more, q: enough]", shorter[] = "[Space: more]";
    return width >= (int)sizeof whole ? whole : width >= (int)sizeof shorter ? shorter : ">";
}

bool screen_ask_more(Screen *screen) {
    const char *on = screen_style(screen, SCREEN_DIM), *off = screen_style(screen, SCREEN_NORMAL);
    const char *question = question_for(screen_width(screen));
    static const char wipe[] = "\r\033[K";
    (void)file_write_all(STDERR_FILENO, on, strlen(on));
    (void)file_write_all(STDERR_FILENO, question, strlen(question));
    (void)file_write_all(STDERR_FILENO, off, strlen(off));
    char key = tty_ask_key(" jfqQ");
    (void)file_write_all(STDERR_FILENO, wipe, sizeof wipe - 1);
    return key == ' ' || key == '\r' || key == '\n' || key == 'j' || key == 'f';
}
