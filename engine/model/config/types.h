// Values of config.json that are looked at rather than read one by one: that they are what they look like.
#ifndef PALAVER_ENGINE_TYPES_H
#define PALAVER_ENGINE_TYPES_H

#include "engine/model/config/source.h"

// STATUS_FILE for the first that is of another type than it has in any model, and would be taken for silence. Its
// architecture may not be known yet.
Status types_check(const ParamSource *source, Error *error);

#endif
