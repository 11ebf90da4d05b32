#include "fla/dispatch/plugins/plugin.h"

// Everything that FLA_REGISTER_BACKEND declares in this library is part of the plugin. What stands in the
// braces runs once, when the plugin is loaded; an exception out of them keeps it out, with what it said.
FLA_PLUGIN(plugin_template) {}
