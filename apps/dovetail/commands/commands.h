// The commands, one file each: its options and what it does.
#pragma once

#include "commands/command_line.h"

namespace dovetail::app {

void add_init(Command& app);
void add_run(Command& app);
void add_publish(Command& app);
void add_status(Command& app);
void add_events(Command& app);
void add_trace(Command& app);
void add_parked(Command& app);
void add_gateway(Command& app);
void add_requests(Command& app);
void add_inbox(Command& app);
void add_slots(Command& app);
void add_relay(Command& app);
void add_reconcile(Command& app);
void add_prune(Command& app);
void add_doctor(Command& app);
void add_config(Command& app);
void add_demo(Command& app);
void add_version(Command& app);

}  // namespace dovetail::app
