// What fills the context window, and what will be evicted from it.
#ifndef PALAVER_APP_WINDOW_H
#define PALAVER_APP_WINDOW_H

#include "app/chat/way.h"

enum { WINDOW_NEXT_TURN = 64 }; // tokens of what is asked in a turn of ordinary length

// The window now. Tokens all.
typedef struct Window {
    int64_t size, used, system, turns; // used = system + turns + the template's own
    int64_t reserve;                   // kept free for a reply before a turn begins
    WayTurn *each;                     // [n] the turns of the way to the head, owned
    int n, n_seen;                     // of these in the window
} Window;

Status window_open(Chat *chat, Window *window, Error *error);
void window_close(Window *window);

// What leaves if `n_tokens` are asked now.
typedef struct WindowForecast {
    bool fits;
    bool system;        // the system prompt
    TreeRange turns;    // first 0: none
    int64_t n_tokens;   // theirs, and n_of_reply
    int64_t n_of_reply; // by token: tokens of the oldest reply that stays
} WindowForecast;
Status window_forecast(Chat *chat, int64_t n_tokens, WindowForecast *forecast, Error *error);
bool window_forecast_is_nothing(const WindowForecast *forecast); // it fits as it is

// Turns that come before the first for which something leaves, where they have the size of those so far, and questions
// WINDOW_NEXT_TURN tokens: none exactly where `next`, the forecast for such a question, says that something leaves. -1:
// there is no turn to measure by.
int64_t window_turns_left(const Window *window, const WindowForecast *next);
// What leaves with the turn behind these `n_more`, which count as turns of the way, too. STATUS_USAGE: there is no turn
// to measure by.
Status window_foresee(Chat *chat, const Window *window, int64_t n_more, WindowForecast *forecast,
                      Error *error);

#endif
