#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/export.h"

namespace fla {

enum class OnFailure { raise, fallback };

/// What a person can set about the dispatch. A field that is left out says nothing, and what an earlier layer
/// said holds: built-in defaults, the config file (fla/dispatch/config/config.h), the environment,
/// set_policy, then each ScopedPolicy from the outermost to the innermost. In the maps a later layer speaks
/// for the keys that it has; a list replaces the earlier list as a whole.
///
/// `prefer` changes only the order of asking: the backends that it names are asked first, in its order, then
/// the others as before. It enables no backend: a preferred backend that is disabled, denied, not in the
/// order or not the required one is not used. Within a layer it applies to what `order` leaves; an order in a
/// later layer takes away the preferences of earlier ones for that op.
struct Policy {
  std::optional<bool> disable_dispatch{};  ///< the original kernels only
  std::map<std::string, bool> enable{};    ///< backend -> on or off; what its toggle variable says
  std::map<std::string, std::vector<std::string>>
      order{};  ///< op -> backends; unlisted backends are not used
  std::map<std::string, std::vector<std::string>> prefer{};  ///< op -> backends to ask before the others
  std::optional<std::vector<std::string>> allow{};  ///< "backend" or "op.backend"; nothing else is used
  std::optional<std::vector<std::string>> deny{};   ///< "backend" or "op.backend"; never used
  std::map<std::string, std::string> require{};     ///< op -> the one backend, or an error
  std::optional<OnFailure> on_failure{};
  /// Only backends that promise the same bits for a sequence alone and in any batch, packed or not, and when
  /// it is cut at multiples of kInvariantTokens into calls of one function that hand an f32 state on. Front
  /// doors then give every call to the chunked function.
  std::optional<bool> batch_invariant{};
  std::optional<bool> check_verifiers{};      ///< ask every verifier twice and report one that is not pure
  std::optional<int> breaker_threshold{};     ///< so many failures open a breaker; 0: none does
  std::optional<int> breaker_window_ms{};     ///< … that lie within this time
  std::optional<int> breaker_cool_down_ms{};  ///< from opening to the next trial

  friend bool operator==(const Policy&, const Policy&) = default;
};

/// The policy under which calls of `op` go to that backend or fail, or, for "original", to the original
/// kernel. An empty name leaves the choice as it is.
FLA_API Policy policy_for(std::string_view op, std::string_view backend);

/// Puts a policy on top of the environment, for the whole process; an empty one takes it away again. Calls
/// that are under way finish with the old one. Throws ConfigError, and changes nothing, when it names an op
/// or a backend that does not exist or contradicts itself.
FLA_API void set_policy(const Policy& policy);

/// What the config file, its rules left out, the environment and set_policy amount to.
FLA_API Policy current_policy();

/// Of how many tokens parts are multiples when a sequence is cut into calls, in Policy::batch_invariant's
/// promise.
inline constexpr int kInvariantTokens = 64;

/// What Policy::batch_invariant amounts to on this thread. For verifiers and front doors.
FLA_API bool batch_invariant();

/// Reads every variable again. Throws ConfigError, naming the variable and the value, and keeps the settings
/// that were in force. Without it the environment is read once, before the first dispatch.
FLA_API void reload_environment();

/// A policy on top of everything else, on this thread, until the object goes. Objects nest; they must go in
/// reverse order on the thread that made them. Throws as set_policy does.
class FLA_API ScopedPolicy {
 public:
  explicit ScopedPolicy(const Policy& policy);
  ~ScopedPolicy();
  ScopedPolicy(const ScopedPolicy&) = delete;
  ScopedPolicy& operator=(const ScopedPolicy&) = delete;

  struct Frame;  ///< the dispatch's view of it

 private:
  Frame* frame_;
};

}  // namespace fla
