#include "app/terminal/screen/screen_internal.h"

#include "kernels/base/clock.h"
#include "kernels/base/text/format.h"
#include "kernels/base/text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRAW_EVERY 0.05 // seconds
#define SAY_EVERY 30.0  // seconds, where a line stays
#define DRAW_AFTER 0.25 // seconds, of a count: a bar for less is only a flash
#define SAY_AFTER 2.0   // and where lines stay
#define RATE_AFTER 0.2  // a rate over less says nothing

// Best effort: progress is no reason to fail.
static void put(const char *bytes, size_t n) {
    ssize_t wrote = write(STDERR_FILENO, bytes, n);
    (void)wrote;
}

static void format_amount(const Progress *progress, double amount, char out[FORMAT_ROOM]) {
    if (progress->unit)
        snprintf(out, FORMAT_ROOM, "%.0f %s", amount < 1e10 ? amount : 1e10, progress->unit);
    else
        format_bytes(amount, out);
}

static void draw(Screen *screen, const char *what, uint64_t done, uint64_t total) {
    Progress *progress = &screen->progress;
    char have[FORMAT_ROOM], all[FORMAT_ROOM], rate[48] = "", tail[112];
    double seconds = progress->last - progress->started;
    if (seconds >= RATE_AFTER) {
        char per_second[FORMAT_ROOM];
        format_amount(progress, (double)done / seconds, per_second);
        double left = done && total ? seconds * (double)(total - done) / (double)done : 0;
        if (left >= 1)
            snprintf(rate, sizeof rate, left < 90 ? "  %s/s  %.0f s left" : "  %s/s  %.0f min left",
                     per_second, left < 90 ? left : left / 60);
        else
            snprintf(rate, sizeof rate, "  %s/s", per_second);
    }
    format_amount(progress, (double)done, have);
    format_amount(progress, (double)total, all);
    int percent = total ? (int)((double)done / (double)total * 100) : 0;
    if (total)
        snprintf(tail, sizeof tail, " %3d%%  %s of %s%s", percent, have, all, rate);
    else
        snprintf(tail, sizeof tail, "  %s%s", have, rate);
    Text *out = &screen->out;
    out->size = 0;
    text_add(out, "\r\033[K", 4);
    // One column stays free: a full line would wrap.
    int room = screen_width(screen) - 1 - (int)strlen(tail), name = (int)strlen(what);
    if (name + 2 > room) name = room > 2 ? room - 2 : 0;
    while (name && utf8_continues(what[name])) name--; // whole characters
    text_add(out, what, (size_t)name);
    int bar = total ? room - name - 1 : 0;
    if (bar > 40) bar = 40;
    if (bar >= 5) {
        int full = (int)((double)done / (double)total * bar);
        text_add(out, " ", 1);
        for (int i = 0; i < bar; i++) {
            const char *cell =
                i < full ? (screen->traits.utf8 ? "█" : "#") : (screen->traits.utf8 ? "░" : ".");
            text_add(out, cell, strlen(cell));
        }
    }
    if (room > 0) text_add(out, tail, strlen(tail));
    put(out->bytes, out->size);
    progress->drawn = true;
}

static void show_progress(Screen *screen, const char *what, uint64_t done, uint64_t total, const char *unit) {
    Progress *progress = &screen->progress;
    if (screen->quiet || !screen->traits.notice_terminal) return;
    if (total && done > total) done = total;
    double time = clock_seconds();
    bool first = !progress->on;
    if (first) *progress = (Progress){.on = true, .started = time, .unit = unit};
    // What is read in a moment shows no bar.
    if (unit && time - progress->started < (screen->traits.plain ? SAY_AFTER : DRAW_AFTER)) return;
    if (!screen->traits.plain) {
        if (progress->drawn && time - progress->last < DRAW_EVERY) return;
        progress->last = time;
        char *name = screen_harmless(screen, what, strlen(what));
        if (name) draw(screen, name, done, total);
        free(name);
        return;
    }
    int quarter = total ? (int)(done * 4.0 / total) : 0;
    if (quarter <= progress->quarter) return;
    progress->quarter = quarter;
    char all[16];
    format_amount(progress, (double)total, all);
    Text *out = &screen->out;
    char line[64];
    snprintf(line, sizeof line, ": %d%% of %s\n", quarter * 25, all);
    out->size = 0;
    text_add(out, what, strlen(what));
    text_add(out, line, strlen(line));
    put(out->bytes, out->size);
}

void screen_progress(Screen *screen, const char *what, uint64_t done, uint64_t total) {
    show_progress(screen, what, done, total, NULL);
}

void screen_progress_tokens(Screen *screen, const char *what, uint64_t done, uint64_t total) {
    show_progress(screen, what, done, total, "tok");
}

void screen_progress_steps(Screen *screen, const char *what, uint64_t done, uint64_t total) {
    show_progress(screen, what, done, total, "steps");
}

void screen_status(Screen *screen, const char *text) {
    Progress *progress = &screen->progress;
    bool in_place = screen->traits.notice_terminal && !screen->traits.plain;
    double time = clock_seconds();
    if (screen->quiet) return;
    if (!progress->on)
        *progress = (Progress){.on = true, .started = time, .last = in_place ? 0 : screen->last_line};
    if (!in_place && screen->last_line == 0) screen->last_line = progress->last = time;
    if (time - progress->last < (in_place ? DRAW_EVERY : SAY_EVERY)) return;
    progress->last = time;
    Text *out = &screen->out;
    out->size = 0;
    size_t n = strlen(text), room = (size_t)screen_width(screen) - 1;
    if (in_place) text_add(out, "\r\033[K", 4);
    text_add(out, text, in_place && n > room ? room : n);
    if (!in_place) text_add(out, "\n", 1), screen->last_line = time;
    put(out->bytes, out->size);
    progress->drawn = in_place;
}

void screen_progress_end(Screen *screen) {
    if (screen->progress.drawn) put("\r\033[K", 4);
    screen->progress = (Progress){0};
}
