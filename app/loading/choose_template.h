// Which chat template a chat goes by: the settings', or the model's own.
#ifndef PALAVER_APP_LOADING_CHOOSE_TEMPLATE_H
#define PALAVER_APP_LOADING_CHOOSE_TEMPLATE_H

#include "app/settings/settings.h"
#include "app/terminal/screen/screen.h"
#include "engine/engine.h"
#include "tokenizer/chat/chat_template.h"

// The chat template that the settings name, or the model's own, with a warning where it may not fit.
Status choose_template(Screen *screen, const Settings *settings, const Engine *engine,
                       ChatTemplate **chat_template, Error *error);

// Tells the template what the settings say of it (template_args, thinking). STATUS_USAGE: it does not ask.
Status choose_template_settings(const Settings *settings, const Engine *engine, ChatTemplate *chat_template,
                                Error *error);

#endif
