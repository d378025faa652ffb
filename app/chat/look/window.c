#include "app/chat/look/window.h"

#include "app/chat/chat_internal.h"

#include <stdlib.h>

Status window_open(Chat *chat, Window *window, Error *error) {
    const Tree *tree = chat_tree(chat);
    ConversationView view;
    *window = (Window){.size = engine_context_size(chat->model.engine),
                       .reserve = conversation_reserve(chat->conversation),
                       .n = tree_depth(tree)};
    if (conversation_view(chat->conversation, false, &view, error)) return error->status;
    Status status = way_turns(chat, tree->head, &view, &window->each, error);
    if (!status) {
        window->used = view.tokens.n;
        if (way_sees_system(chat)) window->system = view.spans[0].end - view.spans[0].begin;
        for (int i = 0; i < window->n; i++) {
            window->n_seen += !window->each[i].evicted;
            window->turns += window->each[i].n_tokens;
        }
    }
    conversation_view_free(&view);
    return status;
}

void window_close(Window *window) {
    free(window->each);
    *window = (Window){0};
}

bool window_forecast_is_nothing(const WindowForecast *forecast) {
    return forecast->fits && !forecast->system && !forecast->turns.first && !forecast->n_of_reply;
}

int64_t window_turns_left(const Window *window, const WindowForecast *next) {
    if (!window->turns) return -1;
    if (!window_forecast_is_nothing(next)) return 0;
    int64_t room = window->size - window->used - window->reserve - WINDOW_NEXT_TURN;
    return room > 0 ? 1 + room * window->n_seen / window->turns : 1;
}

Status window_foresee(Chat *chat, const Window *window, int64_t n_more, WindowForecast *forecast,
                      Error *error) {
    if (!window->turns) return error_set(error, STATUS_USAGE, "there is no turn yet to measure by");
    int n = 0, gone = window->n - window->n_seen;
    OverflowSpan *spans = malloc(((size_t)window->n_seen + (size_t)n_more + 2) * sizeof *spans);
    if (!spans) return error_set(error, STATUS_MEMORY, "out of memory");
    spans[n++] = (OverflowSpan){.n_tokens = window->used - window->turns, .is_system = true};
    for (int i = 0; i < window->n; i++)
        if (!window->each[i].evicted)
            spans[n++] = (OverflowSpan){.n_tokens = window->each[i].n_tokens, .is_user = true};
    int64_t each =
        (window->turns + window->n_seen - 1) / window->n_seen; // so much that the last question does not fit
    for (int i = 0; i < n_more; i++) spans[n++] = (OverflowSpan){.n_tokens = each, .is_user = true};
    spans[n++] = (OverflowSpan){.n_tokens = WINDOW_NEXT_TURN, .is_user = true};
    OverflowPlan plan = overflow_plan(&conversation_settings(chat->conversation)->overflow, spans, n,
                                      window->size, window->reserve);
    free(spans);
    *forecast = (WindowForecast){.fits = plan.fits, .n_tokens = plan.n_tokens};
    int first = gone + (plan.first > 1 ? plan.first : 1);
    const bool beginning = plan.first == 0 && plan.n_turns > 0; // is a turn of the plan
    forecast->system = beginning && window->system;
    if (plan.n_turns > beginning) forecast->turns = (TreeRange){first, first + plan.n_turns - 1 - beginning};
    return STATUS_OK;
}

Status window_forecast(Chat *chat, int64_t n_tokens, WindowForecast *forecast, Error *error) {
    OverflowPlan plan;
    WayTurn *turns;
    const Tree *tree = chat_tree(chat);
    int system = way_sees_system(chat) ? 1 : 0;
    if (conversation_forecast(chat->conversation, n_tokens, &plan, error) ||
        way_turns(chat, tree->head, NULL, &turns, error))
        return error->status;
    const bool leaves = plan.first < system && plan.n_messages > 0;
    *forecast = (WindowForecast){.fits = plan.fits,
                                 .system = leaves,
                                 .turns = way_oldest(turns, tree_depth(tree),
                                                     plan.first > system ? plan.first - system : 0,
                                                     plan.n_messages - leaves),
                                 .n_tokens = plan.n_tokens,
                                 .n_of_reply = plan.n_of_reply};
    free(turns);
    return STATUS_OK;
}
