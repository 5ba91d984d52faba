// What [retention] of the config file means to a store. Used by the command and by the daemon.
#pragma once

#include "ops/config.h"
#include "sqlite/admin.h"

namespace dovetail::app {

sqlite::PruneOptions prune_options(const ops::RetentionConfig& retention);

}  // namespace dovetail::app
