#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "fla/core/export.h"
#include "fla/core/subscription.h"
#include "fla/dispatch/settings/policy.h"

/// The config file that FLA_CONFIG names: TOML with the fields of Policy, and rules for the calls that meet a
/// condition.
///
///     disable_dispatch = false
///     on_failure = "fallback"                     # or "raise"
///     batch_invariant = false
///     check_verifiers = false
///     allow = ["cpu_simd", "kda.flash_kda"]       # "backend" or "op.backend"
///     deny = []
///
///     [enable]                                    # backend = on or off
///     tilelang = false
///     [order]                                     # op = its backends; unlisted ones are not used
///     kda = ["flash_kda", "cpu_simd"]
///     [prefer]                                    # op = the backends to ask before its others
///     kda = ["tilelang"]
///     [require]                                   # op = the one backend, or an error
///     kda = "flash_kda"
///     [breaker]
///     threshold = 5
///     window_ms = 10000
///     cool_down_ms = 30000
///
///     [[rule]]
///     op = "kda"
///     when = "T < 64 and device == 'cpu'"         # left out: every call of the op
///     order = ["cpu_simd"]                        # and prefer, allow, deny, require, on_failure,
///                                                 # disable_dispatch
///
/// Per op, the first matching rule applies, on top of the file's other settings; the environment, set_policy
/// and ScopedPolicy come on top of both. Conditions are made of `and`, `or`, `not`,
/// parentheses, == != < <= > >=, and `x in [a, b]`. They may ask for dtype ('bf16', …), device ('cpu',
/// 'cuda'), the sizes B T H HV K V, N (sequences) and P (slots of states), varlen, the op's flags, its
/// numbers (alone: whether it is given) and whether an optional tensor is given, all by their names. A rule
/// whose condition asks for what a function of the op does not have says nothing about that function.
///
/// The file is read with the environment: before the first dispatch, and by reload_environment(); an error
/// then is a ConfigError of that call. From then on it is watched, on a thread of its own (Linux's inotify):
/// when somebody has closed it after writing, or renamed another file to it, it is read again and takes the
/// place of the old one as a whole. Calls that are under way finish with the old one. A file that is wrong,
/// vetoed or gone changes nothing; the log says once, as a warning, what was wrong. Better than writing into
/// the file is to write another and to rename it: a file that is being written into may be read half by
/// reload_config() and by processes that are just starting.
///
/// A forked child keeps the settings but has no such thread; reload_environment() starts one there.
namespace fla {

/// A file that was read again, and what became of it.
struct ConfigChange {
  std::string path;       ///< as FLA_CONFIG has it
  bool accepted = true;   ///< while vetoes are asked: nothing else spoke against it
  std::string message{};  ///< why it was refused: "PATH:LINE: …"
  Policy policy{};        ///< the settings outside of rules; of a refused file that makes no sense: empty
  std::size_t rules = 0;
};

/// Asks `veto` before a changed file is applied; a reason keeps the old one. An exception is a reason,
/// too. What the environment brings (the first reading, reload_environment()) is not asked about.
[[nodiscard]] FLA_API Subscription
veto_config(std::function<std::optional<std::string>(const ConfigChange&)> veto);

/// Tells `listener` of every changed file, after it was applied or refused. It must not throw; one that
/// does is logged.
///
/// Callbacks run on the watching thread or that of reload_config(), with no lock of the library held: they
/// may call ops and set policies.
[[nodiscard]] FLA_API Subscription on_config_change(std::function<void(const ConfigChange&)> listener);

/// Reads the file again now, changed or not, and returns when it is in force. Throws ConfigError, and changes
/// nothing, when it is wrong or vetoed, or when FLA_CONFIG names none.
FLA_API void reload_config();

struct ConfigSummary {
  Policy policy;
  std::size_t rules = 0;
};

/// Whether a file would be accepted, whatever FLA_CONFIG says: throws ConfigError "PATH:LINE: …". Loads all
/// plugins, to know their names; changes no settings.
FLA_API ConfigSummary check_config(const std::string& path);

}  // namespace fla
